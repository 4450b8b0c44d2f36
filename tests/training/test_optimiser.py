"""The learning rate rises and falls in straight lines; norms and biases do not decay."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from isogloss.config import TrainingSettings
from isogloss.training.optimiser import adamw, rate_at


@given(st.integers(1, 300), st.floats(0, 1))
def test_rate_is_positive_peaks_once_and_ends_low(total: int, warmup: float) -> None:
    settings = TrainingSettings(warmup=warmup, learning_rate=1.0)
    rates = [rate_at(step, total, settings) for step in range(total)]
    assert all(0 < rate <= 1 for rate in rates)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)


def test_ends_and_peak() -> None:
    settings = TrainingSettings(warmup=0.1, learning_rate=2.0)
    assert [round(rate_at(step, 100, settings), 6) for step in (0, 9, 10, 55, 99)] == [0.2, 2.0, 2.0, 1.0, round(2 / 90, 6)]


def test_groups() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    decayed, kept = adamw(model.named_parameters(), TrainingSettings(weight_decay=0.1)).param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(3, 3)] and decayed["weight_decay"] == 0.1
    assert len(kept["params"]) == 3 and kept["weight_decay"] == 0.0

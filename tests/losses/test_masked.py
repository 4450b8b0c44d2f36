"""Cross-entropy of hidden tokens against its definition, and its gradient against softmax minus the right answer."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.losses.masked import masked


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 0, 2])), max_size=6), st.integers(0, 10_000))
@settings(deadline=None)
def test_value_and_gradient_equal_the_formula(places: list[tuple[int, int]], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(places), 7, generator=random, dtype=torch.float64) * 3
    weight = torch.tensor([count for _, count in places], dtype=torch.float64)
    logits[weight == 0] = math.nan
    logits.requires_grad_()
    wanted = torch.tensor([token for token, _ in places], dtype=torch.int64)
    value = masked(logits, wanted, weight)
    (slope,) = torch.autograd.grad(value, logits)
    total, expected = sum(count for _, count in places), torch.zeros_like(logits)
    surprise = 0.0
    for row, (token, count) in enumerate(places):
        if not count:
            continue
        share = logits[row].detach().exp() / logits[row].detach().exp().sum()
        surprise -= count * math.log(share[token]) / total
        expected[row] = count * (share - torch.eye(7, dtype=torch.float64)[token]) / total
    assert value.item() == pytest.approx(surprise, rel=1e-9, abs=1e-12)
    assert torch.allclose(slope, expected, rtol=1e-8, atol=1e-12)


def test_without_weights_every_place_counts_once() -> None:
    logits, wanted = torch.zeros(3, 5), torch.tensor([0, 4, 2])
    assert masked(logits, wanted).item() == pytest.approx(math.log(5))


def test_half_precision_is_added_up_in_single() -> None:
    torch.manual_seed(0)
    logits, wanted = torch.randn(50, 11).bfloat16(), torch.randint(0, 11, (50,))
    value = masked(logits, wanted)
    assert value.dtype == torch.float32 and value.item() == masked(logits.float(), wanted).item()

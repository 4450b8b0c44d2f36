"""The rate rises to its peak over the warm-up, then does what its shape's formula says, and is never quite zero."""

import math
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from isogloss.config import Schedule
from isogloss.training.schedules import rate_at, unfinished_warmup, warmup_steps

some_total = st.integers(1, 400)
some_warmup = st.one_of(st.floats(0, 1, exclude_max=True), st.integers(1, 600))
some_peak = st.floats(1e-8, 10)
some_shape = st.sampled_from(get_args(Schedule))


def rates_of(total: int, peak: float, warmup: float, shape: Schedule) -> list[float]:
    return [rate_at(step, total, peak, warmup_steps(warmup, total), shape) for step in range(total)]


@given(some_total, some_peak, some_warmup, some_shape)
def test_rates_are_above_zero_rise_then_never_rise_again(total: int, peak: float, warmup: float, shape: Schedule) -> None:
    rates = rates_of(total, peak, warmup, shape)
    assert all(0 < rate <= peak for rate in rates)
    top = rates.index(max(rates))
    rising, falling = rates[: top + 1], rates[top:]
    assert all(one < next_one for one, next_one in pairwise(rising))
    assert falling == sorted(falling, reverse=True)


@given(some_total, some_peak, some_warmup, some_shape)
def test_the_peak_is_reached_exactly_when_the_warmup_ends(total: int, peak: float, warmup: float, shape: Schedule) -> None:
    steps = warmup_steps(warmup, total)
    assume(steps < total)
    rates = rates_of(total, peak, warmup, shape)
    assert rates[steps] == peak
    assert all(rate < peak for rate in rates[: max(steps - 1, 0)])
    assert steps == 0 or rates[steps - 1] == peak
    assert shape == "constant" or all(rate < peak for rate in rates[steps + 1 :])


@given(some_total, some_peak, some_warmup)
def test_the_formulas_of_the_papers(total: int, peak: float, warmup: float) -> None:
    rising = warmup_steps(warmup, total)
    for step in range(total):
        up = peak * (step + 1) / rising if step < rising else None
        gone = (step - rising) / max(total - rising, 1)
        cosine = peak * (1 + math.cos(math.pi * gone)) / 2 if up is None else up
        linear = peak * (1 - gone) if up is None else up
        assert rate_at(step, total, peak, rising, "cosine") == pytest.approx(cosine, rel=1e-9)
        assert rate_at(step, total, peak, rising, "linear") == pytest.approx(linear, rel=1e-9)
        assert rate_at(step, total, peak, rising, "constant") == pytest.approx(peak if up is None else up, rel=1e-9)


def test_ham_and_kim() -> None:
    """54K steps of warm-up to 0.02, then a cosine to step 105K: half way down it is half as high."""
    rising = warmup_steps(54_000, 105_000)
    assert rising == 54_000
    rates = [rate_at(step, 105_000, 0.02, rising, "cosine") for step in (0, 26_999, 53_999, 54_000, 79_500, 104_999)]
    assert rates[:5] == pytest.approx([0.02 / 54_000, 0.01, 0.02, 0.02, 0.01])
    assert 0 < rates[5] < 1e-10


@pytest.mark.parametrize(
    ("warmup", "total", "steps"),
    [(0, 50, 0), (0.1, 100, 10), (0.1, 4, 0), (0.999, 10, 10), (1, 100, 1), (1.0, 100, 1), (10_000, 200, 10_000), (0.5, 0, 0)],
)
def test_a_warmup_is_a_share_or_a_number_of_steps(warmup: float, total: int, steps: int) -> None:
    assert warmup_steps(warmup, total) == steps


def test_a_short_trial_takes_the_first_steps_of_the_long_run() -> None:
    long, short = (rates_of(total, 1.0, 300, "cosine") for total in (1000, 200))
    assert long[:200] == short


@given(some_total, st.integers(0, 600), some_shape, st.integers(0, 9))
def test_after_the_end_it_never_goes_below_zero(total: int, warmup: int, shape: Schedule, beyond: int) -> None:
    assert rate_at(total + beyond, total, 1.0, warmup, shape) >= 0


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_the_last_of_very_many_steps_still_moves(shape: Schedule) -> None:
    assert rate_at(10**10 - 1, 10**10, 1.0, 0, shape) > 0


@example(7.0, 7)
@example(7.0, 8)
@given(st.floats(0, 2000), st.integers(0, 1000))
def test_a_warmup_that_never_ends_is_said(warmup: float, total: int) -> None:
    found = unfinished_warmup(warmup, total)
    never_ends = warmup >= 1 and total > 1 and round(warmup) >= total
    assert (found is not None) == never_ends
    if found is not None:
        last = rate_at(total - 1, total, 1.0, warmup_steps(warmup, total), "linear")
        assert f"to {last:.2g} of training.learning_rate at the end" in found.sentence
        assert "training.warmup" in found.hint

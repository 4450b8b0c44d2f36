"""The fit of learning curves: against scipy, against curves that are known, and how often intervals hold the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from isogloss.errors import IsoglossError
from isogloss.evaluation.learning_curve import RATES, Curves, Points, fit, interval, misfit, resampled
from isogloss.evaluation.metrics import Doubles

SIZES: Doubles = np.array([1000.0, 2000.0, 4000.0, 8000.0])
ERRORS = np.full(4, 0.008)


def power(sizes: Doubles, level: float, drop: float, rate: float) -> Doubles:
    """Written from the formula, with 1000 pairs as the middle."""
    values: Doubles = level - drop * (sizes / 1000) ** -rate
    return values


def weighted_error(points: Points, curve: Curves) -> float:
    return sum(
        float((curve.level[0] - curve.drop[0] * (size / curve.middle) ** -curve.rate[0] - score) / error) ** 2
        for size, score, error in zip(*points, strict=True)
    )


known = st.tuples(st.floats(0.5, 1.0), st.floats(0.05, 0.5), st.floats(0.1, 1.5))


@given(known)
def test_a_curve_without_noise_is_found_again(parameters: tuple[float, float, float]) -> None:
    curve = fit(Points(SIZES, power(SIZES, *parameters), ERRORS))
    for size in (1500.0, 6000.0, 32_000.0):
        assert curve.at(size)[0] == pytest.approx(power(np.array([size]), *parameters)[0], abs=0.006)


@settings(max_examples=25)
@given(known, st.lists(st.floats(-2, 2), min_size=4, max_size=4), st.lists(st.floats(0.002, 0.03), min_size=4, max_size=4))
def test_it_is_as_good_as_the_best_that_scipy_finds(
    parameters: tuple[float, float, float], noise: list[float], errors: list[float]
) -> None:
    own = np.array(errors)
    points = Points(SIZES, power(SIZES, *parameters) + own * noise, own)
    curve = fit(points)
    assert curve.drop[0] >= 0 and curve.level[0] <= 1 and RATES[0] <= curve.rate[0] <= RATES[-1]

    def residuals(guess: Doubles) -> Doubles:
        distances: Doubles = (guess[0] - guess[1] * (SIZES / curve.middle) ** -guess[2] - points.scores) / own
        return distances

    bounds = ([-np.inf, 0, RATES[0]], [1.0, np.inf, RATES[-1]])
    starts = [(0.5, 0.1, 0.1), (0.99, 0.1, 0.3), (0.9, 0.1, 1.0)]
    found = min(float((least_squares(residuals, start, bounds=bounds).fun ** 2).sum()) for start in starts)
    assert weighted_error(points, curve) <= found + 0.1  # the grid of rates is this fine


@given(known, st.floats(0.001, 0.2))
def test_needed_is_the_inverse_of_the_score(parameters: tuple[float, float, float], below: float) -> None:
    level, drop, rate = (np.array([one]) for one in parameters)
    curve = Curves(1000.0, level, drop, rate)
    wanted = parameters[0] - below
    assert curve.at(curve.needed(wanted)[0])[0] == pytest.approx(wanted)
    assert curve.needed(parameters[0])[0] == curve.needed(parameters[0] + below)[0] == np.inf


def test_scores_that_do_not_grow_have_a_flat_curve() -> None:
    points = Points(SIZES, np.array([0.8, 0.8, 0.8, 0.8]), ERRORS)
    curve = fit(points)
    assert curve.level[0] == pytest.approx(0.8) and curve.at(1e9)[0] == pytest.approx(0.8)
    assert curve.needed(0.9)[0] == np.inf
    falling = fit(points._replace(scores=np.array([0.9, 0.8, 0.7, 0.6])))
    assert falling.drop[0] == 0 and falling.level[0] == pytest.approx(0.75)


@pytest.mark.parametrize("points", [4, 5])
def test_intervals_hold_the_truth_in_most_cases(points: int) -> None:
    random = np.random.default_rng(points)
    sizes, errors = 1000.0 * np.array([2.0**step for step in range(points)]), np.full(points, 0.008)
    far, held = 4 * sizes[-1], {"score": 0, "needed": 0}
    for _ in range(60):
        true = random.uniform(0.8, 1.0), random.uniform(0.1, 0.4), random.uniform(0.2, 0.8)
        measured = Points(sizes, power(sizes, *true) + errors * random.standard_normal(points), errors)
        draws = resampled(measured, fit(measured), draws=300, seed=1)
        (reached,) = power(np.array([far]), *true)
        low, high = interval(draws.at(far))
        held["score"] += low <= reached <= high
        low, high = interval(draws.needed(float(reached)))
        held["needed"] += low <= far <= high
    assert all(count >= 53 for count in held.values()), held
    assert any(count < 60 for count in held.values()), "intervals that always hold it are too wide"


def test_intervals_are_wider_with_less_data_and_the_same_each_time() -> None:
    points = Points(SIZES, power(SIZES, 0.95, 0.2, 0.4), ERRORS)
    curve = fit(points)

    def width(size: float, errors: Doubles = ERRORS) -> float:
        low, high = interval(resampled(points._replace(errors=errors), curve, 200, 5).at(size))
        return high - low

    assert width(4000) < width(64_000) == width(64_000) < width(64_000, 3 * ERRORS)


def test_scores_off_the_curve_widen_it() -> None:
    on = Points(SIZES, power(SIZES, 0.95, 0.2, 0.4), ERRORS)
    off = on._replace(scores=on.scores + np.array([0.05, -0.05, 0.05, -0.05]))
    assert misfit(on, fit(on)) == 1
    expected = np.sqrt(weighted_error(off, fit(off)))  # four points less three parameters
    assert misfit(off, fit(off)) == pytest.approx(expected) and expected > 5


def test_an_interval_may_be_infinite_and_leaves_out_a_fortieth_on_each_side() -> None:
    assert interval(np.arange(200.0)) == (5.0, 194.0)
    low, high = interval(np.array([1.0] * 30 + [np.inf] * 10))
    assert low == 1 and high == np.inf


def test_two_sizes_are_no_curve() -> None:
    points = Points(np.array([10.0, 10.0, 20.0]), np.array([0.1, 0.1, 0.2]), np.full(3, 0.1))
    with pytest.raises(IsoglossError, match="at least 3 sizes"):
        fit(points)

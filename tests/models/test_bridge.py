"""The bridge equals ridge regression written out over all rows, and chooses λ as leaving folds out one by one would."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.errors import DataError
from isogloss.models.bridge import BridgeSolver
from isogloss.types import FloatArray, IntArray


def data(seed: int, rows: int, width: int, height: int) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, width)).astype(np.float32) + 3
    y = (x @ random.normal(size=(width, height)) + random.normal(size=(rows, height))).astype(np.float32)
    return x, y, random.integers(0, rows, rows), random.uniform(0.1, 2, rows).astype(np.float32)


def by_definition(x: FloatArray, y: FloatArray, weight: FloatArray, strength: float) -> tuple[FloatArray, FloatArray]:
    """Weighted, centred ridge regression as one least-squares problem with √λ rows."""
    w = weight.astype(np.float64)
    mean_x, mean_y = (w @ x) / w.sum(), (w @ y) / w.sum()
    scaled_x, scaled_y = (x - mean_x) * np.sqrt(w)[:, None], (y - mean_y) * np.sqrt(w)[:, None]
    ridge = strength * (scaled_x**2).sum() / x.shape[1]
    stacked = np.vstack([scaled_x, np.sqrt(ridge) * np.eye(x.shape[1])])
    solved = np.linalg.lstsq(stacked, np.vstack([scaled_y, np.zeros((x.shape[1], y.shape[1]))]), rcond=None)[0]
    return solved.T, mean_y - solved.T @ mean_x


@given(st.integers(0, 10_000), st.integers(12, 40), st.integers(1, 6), st.integers(1, 5), st.sampled_from([1e-4, 0.1, 3.0]))
@settings(deadline=None)
def test_it_is_ridge_regression(seed: int, rows: int, width: int, height: int, strength: float) -> None:
    x, y, groups, weight = data(seed, rows, width, height)
    solver = BridgeSolver(width, height, folds=3)
    for start in range(0, rows, 7):  # streamed
        part = slice(start, start + 7)
        solver.add(x[part], y[part], groups[part], weight[part])
    bridge = solver.solve([strength])
    matrix, bias = by_definition(x, y, weight, strength)
    assert np.allclose(bridge.weight, matrix, atol=2e-3)
    assert np.allclose(bridge.apply(x), x @ matrix.T + bias, atol=2e-2)


def test_strength_is_chosen_on_left_out_groups() -> None:
    x, y, groups, weight = data(3, 60, 8, 4)
    strengths = [1e-4, 1e-2, 0.3, 10.0]
    solver = BridgeSolver(8, 4, folds=4)
    solver.add(x, y, groups, weight)
    bridge = solver.solve(strengths)
    for strength in strengths:
        error = 0.0
        for fold in range(4):
            out = groups % 4 == fold
            matrix, bias = by_definition(x[~out], y[~out], weight[~out], strength)
            error += float(weight[out] @ ((x[out] @ matrix.T + bias - y[out]) ** 2).sum(1))
        assert bridge.errors[strength] == pytest.approx(error / weight.sum(), rel=1e-3)
    assert bridge.strength == min(bridge.errors, key=lambda one: bridge.errors[one])


def test_too_little_to_choose_from() -> None:
    solver = BridgeSolver(2, 2)
    solver.add(np.ones((3, 2), np.float32), np.ones((3, 2), np.float32), np.zeros(3, np.int64))
    with pytest.raises(DataError, match="at least two source sentences"):
        solver.solve([0.1])
    with pytest.raises(DataError, match="3 student rows, 2 teacher rows"):
        solver.add(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32), np.zeros(3, np.int64))

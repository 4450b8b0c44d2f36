"""Measures against loops written from their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from isogloss.evaluation.metrics import (
    Doubles,
    cosines,
    dots,
    hits,
    mean_squared_error,
    minus_distances,
    pearson,
    spearman,
    unit,
)
from isogloss.types import FloatArray

VECTORS = st.integers(1, 12).flatmap(
    lambda rows: arrays(np.float32, (rows, 4), elements=st.floats(-3, 3, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3))
)


def cosine_by_definition(a: FloatArray, b: FloatArray) -> float:
    length = math.sqrt(sum(float(x) ** 2 for x in a)) * math.sqrt(sum(float(x) ** 2 for x in b))
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / length if length else 0.0


@given(VECTORS)
def test_unit_and_cosines(vectors: FloatArray) -> None:
    lengths = np.linalg.norm(unit(vectors), axis=1)
    assert all(length == pytest.approx(1, abs=1e-5) or not row.any() for length, row in zip(lengths, vectors, strict=True))
    flipped = vectors[::-1].copy()
    wanted = [cosine_by_definition(a, b) for a, b in zip(vectors, flipped, strict=True)]
    assert np.allclose(cosines(vectors, flipped), wanted, atol=1e-5)


def test_hits_accept_any_right_answer() -> None:
    assert hits(np.array([2, 0, 1]), [{1, 2}, {3}, set()]).tolist() == [True, False, False]


NUMBERS = st.integers(2, 25).flatmap(
    lambda rows: st.tuples(*(arrays(np.float64, rows, elements=st.integers(-4, 4).map(float)) for _ in range(2)))
)


@given(NUMBERS)
def test_correlations_are_scipys(pair: tuple[Doubles, Doubles]) -> None:
    left, right = pair
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        assert pearson(left, right) == spearman(left, right) == 0.0
        return
    assert pearson(left, right) == pytest.approx(stats.pearsonr(left, right).statistic, abs=1e-9)
    assert spearman(left, right) == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-9)


def test_correlation_of_tiny_and_huge_spreads() -> None:
    assert pearson([1.0, 1.0 + 1e-15, 1.0 - 1e-15], [1, 2, 0]) > 0.9
    assert pearson([1e-200, 2e-200, 3e-200], [1, 2, 3]) == pytest.approx(1.0)


@given(VECTORS)
def test_similarities_of_rows(vectors: FloatArray) -> None:
    other = vectors[::-1].copy()
    for row, (a, b) in enumerate(zip(vectors, other, strict=True)):
        assert dots(vectors, other)[row] == pytest.approx(sum(float(x) * float(y) for x, y in zip(a, b, strict=True)), abs=1e-4)
        distance = math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))
        assert minus_distances(vectors, other)[row] == pytest.approx(-distance, abs=1e-5)
    error = sum((float(x) - float(y)) ** 2 for a, b in zip(vectors, other, strict=True) for x, y in zip(a, b, strict=True))
    assert mean_squared_error(vectors, other) == pytest.approx(error / vectors.size, abs=1e-5)

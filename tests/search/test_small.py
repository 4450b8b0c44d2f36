"""Small searches: the same neighbours as the blockwise search, and the nearest by definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isogloss.config.mining import SearchSettings
from isogloss.errors import DataError
from isogloss.search import neighbours as module
from isogloss.search.neighbours import both_ways, nearest, neighbours
from isogloss.types import FloatArray

VECTORS = st.integers(1, 12).flatmap(
    lambda rows: arrays(np.float32, (rows, 4), elements=st.floats(-3, 3, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3))
)


def cosine_by_definition(a: FloatArray, b: FloatArray) -> float:
    length = math.sqrt(sum(float(x) ** 2 for x in a)) * math.sqrt(sum(float(x) ** 2 for x in b))
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / length if length else 0.0


@given(VECTORS, VECTORS)
@settings(deadline=None)
def test_nearest_has_the_highest_cosine(queries: FloatArray, candidates: FloatArray) -> None:
    for query, found in zip(queries, nearest(queries, candidates), strict=True):
        best = max(cosine_by_definition(query, candidate) for candidate in candidates)
        assert cosine_by_definition(query, candidates[found]) == pytest.approx(best, abs=1e-5)


@given(VECTORS, VECTORS, st.integers(1, 5))
@settings(deadline=None)
def test_it_finds_what_the_blockwise_search_finds(left: FloatArray, right: FloatArray, k: int) -> None:
    blockwise = both_ways(left, right, k, SearchSettings(precision="float32"))
    for found, wanted in zip(both_ways(left, right, k), blockwise, strict=True):
        assert np.array_equal(found.ids, wanted.ids) and np.allclose(found.similarity, wanted.similarity, atol=1e-7)
    assert np.array_equal(neighbours(left, right, k).ids, blockwise[0].ids)


def test_what_it_leaves_to_the_blockwise_search(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    left, right = (random.normal(size=(rows, 8)).astype(np.float32) for rows in (90, 70))
    assert module.small_search(left, right, 3, both=True) is not None
    alike = np.ones((90, 8), np.float32) + 1e-7 * left
    assert module.small_search(alike, alike, 1, both=True) is None, "everything is a candidate"
    assert np.array_equal(nearest(alike, alike), neighbours(alike, alike, 1, SearchSettings(precision="float32")).ids[:, 0])
    monkeypatch.setattr(module, "SMALL_PRODUCT", 90 * 70 - 1)
    assert module.small_search(left, right, 3, both=True) is None, "too large"
    monkeypatch.undo()
    right[7, 2] = np.nan
    with pytest.raises(DataError, match="the right vector in row 7 is not finite"):
        both_ways(left, right, 3)


def test_nothing_to_search() -> None:
    assert len(nearest(np.empty((0, 3), np.float32), np.ones((2, 3), np.float32))) == 0

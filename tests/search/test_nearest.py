"""`nearest` against the definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isogloss.search.neighbors import nearest
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


def test_nothing_to_search() -> None:
    assert len(nearest(np.empty((0, 3), np.float32), np.ones((2, 3), np.float32))) == 0

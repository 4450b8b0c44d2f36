"""The exact search against its definition."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.brute_force import best
from isogloss.index.exact_search import nearest_rows
from isogloss.index.vector_index import METRICS, Metric
from isogloss.types import FloatArray


@st.composite
def vectors(draw: st.DrawFn, rows: int) -> FloatArray:
    """Few distinct values, so that there are ties and zero vectors."""
    values = draw(st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), max_size=rows))
    return np.array(values, dtype=np.float32).reshape(-1, 3)


def in_blocks(rows: FloatArray, size: int) -> Iterator[tuple[int, FloatArray]]:
    return ((start, rows[start : start + size]) for start in range(0, len(rows), size))


@pytest.mark.parametrize("metric", METRICS)
@given(queries=vectors(4), rows=vectors(30), k=st.integers(1, 8), size=st.integers(1, 31))
def test_the_nearest_rows_are_those_of_the_definition(
    metric: Metric, queries: FloatArray, rows: FloatArray, k: int, size: int
) -> None:
    found, scores = nearest_rows(queries, in_blocks(rows, size), k, metric)
    assert found.shape == scores.shape == (len(queries), min(k, len(rows)))
    for query, own, values in zip(queries, found, scores, strict=True):
        expected = best(query, rows, k, metric)
        assert values == pytest.approx([score for _, score in expected], abs=1e-7)
        assert len(set(own.tolist())) == len(own)
        for row, value in zip(own, values, strict=True):
            assert value == pytest.approx(dict(best(query, rows, len(rows), metric))[row], abs=1e-7)


def test_of_equals_the_earlier_row_comes_first() -> None:
    rows = np.ones((5000, 2), dtype=np.float32)
    found, _ = nearest_rows(rows[:1], in_blocks(rows, 999), 3, "dot")
    assert found.tolist() == [[0, 1, 2]]


def test_nan_is_never_nearer_than_a_number() -> None:
    rows = np.array([[np.nan, 1], [-1, -1]], dtype=np.float32)
    found, _ = nearest_rows(np.ones((1, 2), dtype=np.float32), in_blocks(rows, 2), 2, "dot")
    assert found.tolist() == [[1, 0]]

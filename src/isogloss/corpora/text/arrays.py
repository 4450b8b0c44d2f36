"""Arrays in spans (span i is `values[starts[i]:starts[i + 1]]`), in runs of equal values, and in groups."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from isogloss.types import BoolArray, IntArray


def starts_of(lengths: ArrayLike) -> IntArray:
    """Where spans of these lengths start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def spans_of(places: IntArray, starts: IntArray) -> IntArray:
    """The span that each place is in."""
    return np.searchsorted(starts, places, side="right") - 1


def count_marked(marked: BoolArray, starts: IntArray) -> IntArray:
    """How many places of each span are marked."""
    running = np.zeros(len(marked) + 1, dtype=np.int32)
    np.cumsum(marked, out=running[1:], dtype=np.int32)
    return np.diff(running.take(starts)).astype(np.int64)


def begins_run(values: NDArray[np.generic]) -> BoolArray:
    """Which values differ from the one before; the first one does."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]


def rows_by(column: pa.ChunkedArray) -> Iterator[tuple[str, IntArray]]:
    """The rows of each value of a column, in the order in which values appear."""
    codes = column.combine_chunks().dictionary_encode()
    for number, value in enumerate(codes.dictionary.to_pylist()):
        yield value, np.flatnonzero(codes.indices.to_numpy() == number)

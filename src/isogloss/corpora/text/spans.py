"""Arrays that are cut into spans: span i is `values[starts[i]:starts[i + 1]]`."""

import numpy as np
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

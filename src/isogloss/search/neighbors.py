"""Exact nearest neighbors by cosine: `neighbors` in one direction, `both_ways` in both from one matrix product.

`blockwise` is the search, `stripes` runs it (device, threads, saved state). `approximate` is for inputs too large to compare
all pairs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isogloss.config.mining import SearchSettings
from isogloss.errors import DataError
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray, IntArray

Vectors = NDArray[np.float16] | NDArray[np.float32]

PAIRS_AT_ONCE = 4096
STAGE = "neighbors"  # of progress


@dataclass(frozen=True, slots=True, eq=False)
class Neighbors:
    """For every row of one side its nearest rows of the other: n × k, the nearest first; ties in order of rows."""

    ids: IntArray
    similarity: FloatArray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def k(self) -> int:
        """Neighbors per row."""
        return int(self.ids.shape[1])

    def first(self, k: int) -> "Neighbors":
        """The nearest k."""
        return Neighbors(self.ids[:, :k], self.similarity[:, :k])

    @property
    def mean(self) -> FloatArray:
        """The mean cosine of each row to its neighbors; 0 if it has none."""
        mean: FloatArray = (self.similarity.sum(axis=1, dtype=np.float64) / max(self.k, 1)).astype(np.float32)
        return mean


def both_ways(
    left: Vectors,
    right: Vectors,
    k: int,
    settings: SearchSettings | None = None,
    on_progress: OnProgress = silent,
    stage: str = STAGE,
    both: bool = True,
) -> tuple[Neighbors, Neighbors]:
    """The k nearest right rows of every left row, and the k nearest left rows of every right row (only with `both`).

    Vectors may be float16 or float32, in memory or memory-mapped. Cosines are computed in double precision and rounded once.
    """
    how = settings or SearchSettings()
    refuse_misfits(left, right, k)
    if not len(left) or not len(right):
        return no_neighbors(len(left)), no_neighbors(len(right))
    from isogloss.search.stripes import search_exactly

    return search_exactly(left, right, k, both, how, on_progress, stage)


def neighbors(
    queries: Vectors, candidates: Vectors, k: int, settings: SearchSettings | None = None, on_progress: OnProgress = silent
) -> Neighbors:
    """The k nearest candidates of every query; see `both_ways`."""
    return both_ways(queries, candidates, k, settings, on_progress, both=False)[0]


def nearest(queries: Vectors, candidates: Vectors) -> IntArray:
    """The row of every query's nearest candidate by cosine; the first of equals."""
    found = neighbors(queries, candidates, 1)
    ids: IntArray = found.ids[:, 0] if found.k else np.empty(0, dtype=np.int64)
    return ids


def pair_cosines(left: Vectors, right: Vectors, rows: IntArray, columns: IntArray) -> FloatArray:
    """The cosine of left row rows[i] with right row columns[i], in double precision, rounded once."""
    found = np.zeros(len(rows), dtype=np.float32)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        one = left[rows[start : start + PAIRS_AT_ONCE]].astype(np.float64)
        other = right[columns[start : start + PAIRS_AT_ONCE]].astype(np.float64)
        lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
        found[start : start + PAIRS_AT_ONCE] = (one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    return found


def refuse_misfits(left: Vectors, right: Vectors, k: int) -> None:
    """Raise for inputs that cannot be searched."""
    if k < 1:
        raise DataError(f"k = {k}: it must be at least 1", hint="4 is usual")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise DataError(
            f"vectors of shape {left.shape} and {right.shape} cannot be compared",
            hint="give two matrices with one vector per row, made by the same model",
        )
    for vectors in (left, right):
        if vectors.dtype not in (np.float16, np.float32, np.float64):
            raise DataError(f"vectors of {vectors.dtype} cannot be searched", hint="give them as float16 or float32")


def no_neighbors(rows: int) -> Neighbors:
    """The neighbors of rows if the other side is empty."""
    return Neighbors(np.empty((rows, 0), dtype=np.int64), np.empty((rows, 0), dtype=np.float32))

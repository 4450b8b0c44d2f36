"""What all vector indexes have in common: vectors with ids, and perhaps texts, that can be searched.

    index = open_index("docs.npy")                      # or a database: see `isogloss.index.open`
    index.facts()                                       # size, dimension, metric, whether vectors have length 1
    for hits in index.search(vectors, k=10):
        hits.ids, hits.scores

An index is opened to read: nothing here writes to it. Each kind of index is one file beside this one; `building` has the
writers that `isogloss index build` fills.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.config.indexing import METRICS as METRICS
from isogloss.config.indexing import Metric as Metric
from isogloss.errors import DataError
from isogloss.index.build_record import BuildRecord
from isogloss.index.closing import Closing
from isogloss.types import FloatArray

SAMPLED = 256  # stored vectors whose length is looked at
Nearest = tuple[Sequence[str], NDArray[np.floating]]  # ids and scores, the best first
UNIT_TOLERANCE = 5e-3  # a vector of length 1 in half precision, or in a database's own codes, is this close to it


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an index holds. `unit_norm` is judged by a sample: None if the index is empty."""

    kind: str
    size: int
    dimension: int
    metric: Metric
    unit_norm: bool | None
    has_texts: bool
    exact: bool  # whether a search is sure to find the nearest
    built: BuildRecord | None = None  # by `isogloss index build`
    note: str = ""  # what a person should know about this index


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """What a search found for one query, the best first; fewer than k if the index has fewer rows.

    Higher scores are better, whatever the metric: the cosine, the dot product, or the negative Euclidean distance.
    """

    ids: list[str]
    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Some rows of an index. `texts` is None if the index has none."""

    ids: list[str]
    vectors: FloatArray
    texts: list[str] | None


class VectorIndex(Protocol):
    """An open index. Close it, or use it in a with statement."""

    @property
    def address(self) -> str:
        """Where it is, without passwords and keys."""
        ...

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        ...

    def search(self, vectors: FloatArray, k: int) -> list[Hits]:
        """The k nearest rows of each vector by the index's own metric. The order of equal scores is not defined."""
        ...

    def sample(self, count: int) -> StoredRows:
        """Up to `count` rows, the same ones each time; spread over the index where that is cheap."""
        ...

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """The texts of some rows by id; ids that are unknown or have no text are left out."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


class CopiedIndex(Protocol):
    """An index that can be read row by row."""

    def stored_blocks(self) -> Iterator[StoredRows]:
        """All rows in blocks."""
        ...


class ReadIndex(Closing, ABC):
    """What opened indexes have in common."""

    address: str
    _dimension: int

    def search(self, vectors: FloatArray, k: int) -> list[Hits]:
        """The k nearest rows of each vector."""
        refuse_misfit(self.address, self._dimension, vectors, k)
        return [found_hits(ids, scores) for ids, scores in self._nearest(vectors, k)]

    @abstractmethod
    def sample(self, count: int) -> StoredRows:
        """Up to `count` rows, the same ones each time."""

    @abstractmethod
    def _nearest(self, vectors: FloatArray, k: int) -> Iterable[Nearest]:
        """Ids and scores of the k nearest rows of each vector."""

    def _unit_norm(self) -> bool | None:
        """Whether a sample of the stored vectors has length 1; None if there are none."""
        return has_unit_norm(self.sample(SAMPLED).vectors)


def found_hits(ids: Sequence[str], scores: "NDArray[np.floating]") -> Hits:
    """Hits in the order given; rows whose vectors cannot be compared (NaN) are left out."""
    values = np.asarray(scores, dtype=np.float32)
    kept = np.flatnonzero(np.isfinite(values))
    return Hits([ids[place] for place in kept.tolist()], values[kept])


def has_unit_norm(vectors: FloatArray) -> bool | None:
    """Whether all vectors have length 1; None if there are none."""
    if not len(vectors):
        return None
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return bool(np.abs(lengths - 1).max() <= UNIT_TOLERANCE)


def spread_rows(count: int, wanted: int) -> list[int]:
    """Up to `wanted` of `count` row numbers, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).astype(int)).tolist() if count and wanted else []


def refuse_misfit(shown: str, dimension: int, vectors: FloatArray, k: int) -> None:
    """Raise for queries that an index cannot be searched with."""
    if k < 1:
        raise DataError(f"k = {k}: it must be at least 1", hint="10 is usual")
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise DataError(
            f"{shown} holds vectors of {amount(dimension, 'dimension')}, but the queries have shape {vectors.shape}",
            hint="search it with vectors of the model that made it, or of a student of that model",
        )

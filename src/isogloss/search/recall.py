"""What a search that does not compare all with all misses: measured on sentences whose true neighbours are known.

Some sentences of each side are compared with everything. By the neighbours of the first half a search is tuned, by those of
the second it is measured afterwards: what it was tuned to find says nothing about the rest.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.search.neighbours import Neighbours, Vectors, neighbours
from isogloss.types import BoolArray, IntArray

SAMPLED = 512  # sentences of each side to tune by, and as many to measure by
SEED = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAccount:
    """How it was searched: what with, how far it had to look, what the index took in bytes, and what was found of all."""

    kind: str
    why: str
    lists: int = 0
    probes: float = 0.0  # cells or lists that a sentence looks into, or the depth in a graph
    index_bytes: int = 0
    compared: float | None = None  # of all comparisons, where it is known
    recall_wanted: float | None = None
    recall: float | None = None  # measured; None where nothing can be missed
    sampled: int = 0  # sentences that it was measured by

    @property
    def falls_short(self) -> bool:
        """Whether clearly fewer neighbours were found than was asked for: by more than two standard errors."""
        if self.recall is None or self.recall_wanted is None:
            return False
        return self.recall < self.recall_wanted - 2 * _error(self.recall_wanted, self.sampled)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sentences of one side and their true neighbours: the first half to tune by, the rest to measure by."""

    rows: IntArray
    ids: IntArray

    @property
    def half(self) -> int:
        """How many there are to tune by."""
        return -(-len(self.rows) // 2)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Every pair of neighbours to tune by."""
        return np.repeat(self.rows[: self.half], self.ids.shape[1]), self.ids[: self.half].ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """What a search found, before it is measured: neighbours of both sides, −1 where one met too few, and the samples."""

    left: Neighbours
    right: Neighbours
    samples: tuple[Sample, Sample]


def drawn_rows(rows: int, seed: int) -> IntArray:
    """The sentences of a sample, in any order."""
    return np.random.default_rng(SEED + seed).permutation(rows)[: 2 * SAMPLED]


def sampled(left: Vectors, right: Vectors, k: int, settings: SearchSettings) -> tuple[Sample, Sample]:
    """A sample of each side."""
    samples = []
    for seed, (one, other) in enumerate(((left, right), (right, left))):
        rows = drawn_rows(len(one), seed)
        some: Vectors = one[rows]
        samples.append(Sample(rows, neighbours(some, other, k, settings).ids))
    return samples[0], samples[1]


def aim(recall: float, sentences: int) -> float:
    """What a sample of so many sentences has to reach, for the rest to reach the wanted recall: a standard error more."""
    return min(recall + _error(recall, sentences), 1.0)


def _error(share: float, sentences: int) -> float:
    """The standard error of a share that is measured on so many sentences."""
    return math.sqrt(share * (1 - share) / max(sentences, 1))


def share_found(true: IntArray, found: IntArray) -> float:
    """Which share of true neighbours is among those found; both sentences × ids."""
    hits: BoolArray = (true[:, :, None] == found[:, None, :]).any(axis=2)
    return int(hits.sum()) / hits.size if hits.size else 1.0


def measured(samples: tuple[Sample, Sample], found: tuple[Neighbours, Neighbours]) -> tuple[float, int]:
    """The recall of both directions together by the second halves, and by how many sentences it was measured.

    Where a side has so few sentences that a half is empty, all of it counts.
    """
    shares, sentences = [], 0
    for sample, side in zip(samples, found, strict=True):
        rest = slice(sample.half if len(sample.rows) > 1 else 0, None)
        shares.append(share_found(sample.ids[rest], side.ids[sample.rows[rest]]))
        sentences += len(sample.rows[rest])
    return sum(shares) / 2, sentences

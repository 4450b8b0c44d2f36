"""The recall of an approximate search, measured on sentences whose true neighbours are known.

Some sentences of each side are compared with everything. The search is tuned on the first half of them and measured on the
second.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.progress import OnProgress
from isogloss.search.neighbours import Neighbours, Resources, Vectors, neighbours
from isogloss.search.plan import Plan
from isogloss.types import BoolArray, IntArray

SAMPLED = 512  # sentences of each side to tune on, and the same number to measure on
SEED = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAccount:
    """How a search was done: its kind and why, the effort, the size of the index, and the recall."""

    kind: str
    why: str
    lists: int = 0
    probes: float = 0.0  # cells or lists per sentence, or the depth in a graph
    index_bytes: int = 0
    compared: float | None = None  # share of all comparisons, if known
    recall_wanted: float | None = None
    recall: float | None = None  # measured; None for an exact search
    sampled: int = 0  # sentences that it was measured on

    @property
    def falls_short(self) -> bool:
        """Whether the recall is below the wanted one by more than two standard errors."""
        if self.recall is None or self.recall_wanted is None:
            return False
        return self.recall < self.recall_wanted - 2 * _error(self.recall_wanted, self.sampled)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What an approximate search is given."""

    left: Vectors
    right: Vectors
    k: int
    settings: SearchSettings
    resources: Resources
    plan: Plan
    on_progress: OnProgress
    stage: str


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sentences of one side and their true neighbours: the first half to tune on, the rest to measure on."""

    rows: IntArray
    ids: IntArray

    @property
    def half(self) -> int:
        """How many there are to tune on."""
        return -(-len(self.rows) // 2)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Every pair of neighbours to tune on."""
        return np.repeat(self.rows[: self.half], self.ids.shape[1]), self.ids[: self.half].ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What an approximate search found: neighbours of both sides, −1 where there are too few, and the samples."""

    left: Neighbours
    right: Neighbours
    samples: tuple[Sample, Sample]


def sample_rows(rows: int, seed: int) -> IntArray:
    """The rows of a sample, in random order."""
    return np.random.default_rng(SEED + seed).permutation(rows)[: 2 * SAMPLED]


def draw_samples(left: Vectors, right: Vectors, k: int, settings: SearchSettings) -> tuple[Sample, Sample]:
    """A sample of each side."""
    samples = []
    for seed, (one, other) in enumerate(((left, right), (right, left))):
        rows = sample_rows(len(one), seed)
        queries: Vectors = one[rows]
        samples.append(Sample(rows, neighbours(queries, other, k, settings).ids))
    return samples[0], samples[1]


def target_recall(recall: float, sentences: int) -> float:
    """The recall to aim for on a sample: a standard error more than wanted."""
    return min(recall + _error(recall, sentences), 1.0)


def _error(share: float, sentences: int) -> float:
    """The standard error of a share measured on this many sentences."""
    return math.sqrt(share * (1 - share) / max(sentences, 1))


def recall_of(true: IntArray, found: IntArray) -> float:
    """The share of true neighbours that was found; both are sentences × ids."""
    hits: BoolArray = (true[:, :, None] == found[:, None, :]).any(axis=2)
    return int(hits.sum()) / hits.size if hits.size else 1.0


def measure_recall(samples: tuple[Sample, Sample], found: tuple[Neighbours, Neighbours]) -> tuple[float, int]:
    """The mean recall of both directions on the second halves (on all, if a half is empty), and on how many sentences."""
    shares, sentences = [], 0
    for sample, side in zip(samples, found, strict=True):
        rest = slice(sample.half if len(sample.rows) > 1 else 0, None)
        shares.append(recall_of(sample.ids[rest], side.ids[sample.rows[rest]]))
        sentences += len(sample.rows[rest])
    return sum(shares) / 2, sentences

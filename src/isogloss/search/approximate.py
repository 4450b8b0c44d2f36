"""Search without comparing all pairs. The recall is measured, and the cosines of what is found are exact.

    plan      exact, by cells, or with a faiss index (`plan`)
    sample    some sentences of each side are compared with everything
    tune      until one half of the sample finds the wanted share of its neighbors
    search    stripe by stripe (`stripes`); the cosines of what is found are exact (`blockwise`)
    measure   the share of the other half's neighbors that was found: the reported recall

If tuning shows that little would be saved, the search is exact. Sentences that were compared with fewer than k others are
compared with everything. With a folder, the index and the state of the search are kept there.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.progress import OnProgress, Step, silent
from isogloss.search.neighbors import STAGE, Neighbors, Vectors, both_ways, neighbors, no_neighbors, refuse_misfits
from isogloss.search.plan import Machine, Plan, choose
from isogloss.types import BoolArray, IntArray

if TYPE_CHECKING:
    from isogloss.search.stripes import Resources

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


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sentences of one side and their true neighbors: the first half to tune on, the rest to measure on."""

    rows: IntArray
    ids: IntArray

    @property
    def half(self) -> int:
        """How many there are to tune on."""
        return -(-len(self.rows) // 2)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Every pair of neighbors to tune on."""
        return np.repeat(self.rows[: self.half], self.ids.shape[1]), self.ids[: self.half].ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What an approximate search is given."""

    left: Vectors
    right: Vectors
    k: int
    settings: SearchSettings
    resources: "Resources"
    plan: Plan
    on_progress: OnProgress

    def samples(self) -> tuple[Sample, Sample]:
        """A sample of the left and one of the right, kept in the folder of the search."""
        from isogloss.search.stripes import SearchState

        rows = [sample_rows(len(side), seed) for seed, side in enumerate((self.left, self.right))]
        parameters = "sample", self.k, self.settings.normalize, SAMPLED
        ids = SearchState(self.settings.folder, self.left, self.right, parameters).index(
            lambda: {
                "left": self._true_neighbors(self.left[rows[0]], self.right),
                "right": self._true_neighbors(self.right[rows[1]], self.left),
            }
        )
        return Sample(rows[0], ids["left"]), Sample(rows[1], ids["right"])

    def _true_neighbors(self, queries: Vectors, candidates: Vectors) -> IntArray:
        exact = self.settings.replace(folder=None, memory=self.resources.memory)
        return both_ways(queries, candidates, self.k, exact, self.on_progress, f"{STAGE}: sample", both=False)[0].ids


@dataclass(frozen=True, slots=True, eq=False)
class FoundNeighbors:
    """The neighbors of both sides, and how they were found."""

    left: Neighbors
    right: Neighbors
    account: SearchAccount


def search_both_ways(
    left: Vectors,
    right: Vectors,
    k: int,
    settings: SearchSettings | None = None,
    on_progress: OnProgress = silent,
) -> FoundNeighbors:
    """The k nearest neighbors of every sentence on the other side, and how `settings.search` found them."""
    how = settings or SearchSettings()
    refuse_misfits(left, right, k)
    if not len(left) or not len(right):
        account = SearchAccount(kind="exact", why="there is nothing to search")
        return FoundNeighbors(no_neighbors(len(left)), no_neighbors(len(right)), account)
    from isogloss.search.stripes import resources_for

    on = resources_for(left, right, how)
    machine = Machine(on.threads, on.device == "cuda", on.dtype.itemsize)
    plan = choose(len(left), len(right), left.shape[1], on.memory, how.recall, how.search, machine)
    on_progress(Step(STAGE, 0, len(left) + len(right), "sentences", f"{plan.kind}: {plan.why}"))
    if plan.kind == "exact":
        account = SearchAccount(kind="exact", why=plan.why)
        return FoundNeighbors(*both_ways(left, right, k, how, on_progress), account)
    if plan.kind == "cells":
        from isogloss.search.cells import by_cells as approximately
    else:
        from isogloss.search.faiss_index import by_faiss as approximately
    request = Request(left, right, k, how, on, plan, on_progress)
    samples = request.samples()
    found = approximately(request, samples)
    if found.account.kind == "exact":
        return found
    exact = how.replace(folder=None)
    sides = _completed(left, right, found.left, exact), _completed(right, left, found.right, exact)
    recall, sentences = measure_recall(samples, sides)
    return FoundNeighbors(*sides, replace(found.account, recall=recall, sampled=sentences))


def _completed(asking: Vectors, other: Vectors, found: Neighbors, settings: SearchSettings) -> Neighbors:
    """Search again, exactly, for the few sentences that were compared with fewer than k others."""
    rows = np.flatnonzero(found.ids[:, -1] < 0)
    if len(rows):
        queries: Vectors = asking[rows]
        missing = neighbors(queries, other, found.k, settings)
        found.ids[rows], found.similarity[rows] = missing.ids, missing.similarity
    return found


def sample_rows(rows: int, seed: int) -> IntArray:
    """The rows of a sample, in random order."""
    return np.random.default_rng(SEED + seed).permutation(rows)[: 2 * SAMPLED]


def target_recall(recall: float, sentences: int) -> float:
    """The recall to aim for on a sample: a standard error more than wanted."""
    return min(recall + _error(recall, sentences), 1.0)


def _error(share: float, sentences: int) -> float:
    """The standard error of a share measured on this many sentences."""
    return math.sqrt(share * (1 - share) / max(sentences, 1))


def recall_of(true: IntArray, found: IntArray) -> float:
    """The share of true neighbors that was found; both are sentences × ids."""
    hits: BoolArray = (true[:, :, None] == found[:, None, :]).any(axis=2)
    return int(hits.sum()) / hits.size if hits.size else 1.0


def measure_recall(samples: tuple[Sample, Sample], found: tuple[Neighbors, Neighbors]) -> tuple[float, int]:
    """The mean recall of both directions on the second halves (on all, if a half is empty), and on how many sentences."""
    shares, sentences = [], 0
    for sample, side in zip(samples, found, strict=True):
        rest = slice(sample.half if len(sample.rows) > 1 else 0, None)
        shares.append(recall_of(sample.ids[rest], side.ids[sample.rows[rest]]))
        sentences += len(sample.rows[rest])
    return sum(shares) / 2, sentences

"""Cells for both sides: which cell a sentence is in, and which cells it probes.

Cells are those of spherical k-means over the vectors of both sides, each with its mean subtracted (`sides`): otherwise the
offset of a language would put translations into different cells. With c the center of a cell, a sentence x is in the cell with
the largest x′·c, and probes its own cell and every cell with

    x′·c  ≥  level(x) − slack,     level(x) = ½ max x′·c + ½ mean of the greatest x′·c in each of 32 groups of cells

(negative values count as zero). So a sentence in a dense region probes more cells than an isolated one; with the largest score
alone as the level, a sixth more comparisons would be needed for the same recall.

A pair (x, y) is compared if x probes the cell of y or y that of x. So it needs the smaller of two slacks, and the slack for a
wanted recall is a quantile of these over known pairs of neighbours (`slack_for`); no trial searches are needed.

`cells` searches with this; `plan` chooses the number of cells.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isogloss.search.sides import Side
from isogloss.search.stripes import init_worker
from isogloss.types import IntArray

PER_CELL = ((16, 4), (80, 3))  # sentences per center, and rounds of k-means with them: the first are cheap
SORTING_BYTES = 20  # memory per probe while those of a stripe are sorted
GROUPS = 32  # of cells, whose largest scores are half of a level
OWN_CELL = -1.0  # slack for a sentence's own cell: scores are between 0 and 1
AT_ONCE = 2**22  # products
SEED = 7

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Locations:
    """The cells of one side: the cell of each sentence, and the cells it probes, in one flat array."""

    own: IntArray
    probes: NDArray[np.int16]
    ends: IntArray  # row i probes probes[ends[i]:ends[i + 1]]

    def probed_by(self, rows: IntArray, cells: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int32]]:
        """The cells that rows probe, and for each the place of its row in `rows`; `cells` is added if it is not its own."""
        counts = self.ends[rows + 1] - self.ends[rows]
        place = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
        small = np.min_scalar_type(-len(self.probes) - 1)  # the sum may be negative on its way
        where = np.repeat((self.ends[rows] - (np.cumsum(counts) - counts)).astype(small), counts)
        where += np.arange(len(place), dtype=small)
        probes = self.probes[where]
        keys = probes.astype(np.min_scalar_type(2 * cells))  # small numbers are sorted quickly
        keys[probes != self.own[rows].astype(np.int16)[place]] += keys.dtype.type(cells)
        return keys, place

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.own.nbytes + self.probes.nbytes + self.ends.nbytes


def learn_centers(left: Side, right: Side, cells: int, threads: int) -> Tensor:
    """Centers of this many cells, or fewer if there are fewer sentences, in the form of the coarse copies."""
    drawn = np.random.default_rng(SEED)
    centers: Tensor | None = None
    for per_cell, rounds in PER_CELL:
        sample = torch.cat([_drawn(side, cells * per_cell / (len(left) + len(right)), drawn) for side in (left, right)])
        sample[:, left.raw.shape[1] :] = 0  # the extra columns are not part of the position
        if centers is None:
            first = torch.from_numpy(np.sort(drawn.permutation(len(sample))[:cells])).to(sample.device)
            centers = normalize(sample[first].float()).to(sample.dtype)
        for _ in range(rounds):
            centers = _moved(sample, centers, threads)
    assert centers is not None  # there are rounds
    # Near ones are close by, so that sentences of a stripe probe the same cells.
    few = centers[:: max(int(len(centers) ** 0.5), 1)]
    return centers[torch.sort((centers.float() @ few.float().T).argmax(1), stable=True).indices]


def _drawn(side: Side, share: float, drawn: np.random.Generator) -> Tensor:
    """A random share of a side's coarse rows, at least one."""
    rows = np.sort(drawn.permutation(len(side))[: max(int(np.ceil(min(share, 1.0) * len(side))), 1)])
    return side.coarse[torch.from_numpy(rows).to(side.coarse.device)]


def _moved(sample: Tensor, centers: Tensor, threads: int) -> Tensor:
    """One round of k-means; empty centers stay where they are."""
    sums = torch.zeros(centers.shape, dtype=torch.float32, device=centers.device)
    owns = in_chunks(lambda rows: (rows, _scores(sample[rows], centers).argmax(1)), len(sample), len(centers), threads)
    for rows, own in owns:
        sums.index_add_(0, own, sample[rows].float())
    empty = sums.square().sum(1) == 0
    return torch.where(empty[:, None], centers, normalize(sums).to(centers.dtype))


def locate(side: Side, centers: Tensor, slack: float, threads: int) -> Locations:
    """The cell of every sentence of a side, and the cells it probes."""

    def some(rows: slice) -> tuple[Tensor, ...]:
        scores = _scores(side.coarse[rows], centers)
        row, cell = (scores >= _least(scores, slack)).nonzero(as_tuple=True)
        found = scores.argmax(1), cell.to(torch.int16), torch.bincount(row, minlength=len(scores))
        return tuple(part.cpu() for part in found)

    chunks = in_chunks(some, len(side), len(centers), threads)
    own, probes, counts = (torch.cat(part).numpy() for part in zip(*chunks, strict=True))
    return Locations(own, probes, np.concatenate([[0], np.cumsum(counts)]))


def distances(sentences: Tensor, cells_of: Tensor, centers: Tensor) -> Tensor:
    """The slack that each sentence (coarse) needs to probe the cell of another: its level minus the score there."""
    scores = _scores(sentences, centers)
    theirs = _scores(cells_of, centers).argmax(1)
    there = _values(scores.gather(1, theirs[:, None])[:, 0])
    return torch.where(scores.argmax(1) == theirs, OWN_CELL, _level(scores) - there)


def slack_for(share: float, needed: Tensor) -> float:
    """The smallest slack that finds this share of pairs, given the slack that each of a sample needs."""
    if not len(needed):
        return 0.0
    place = min(max(int(np.ceil(share * len(needed))), 1), len(needed)) - 1
    return float(needed.sort().values[place])


def probed_share(sentences: Tensor, centers: Tensor, slack: float) -> tuple[float, float]:
    """The share of the sentences that is in the cells that a sentence probes, and the number of those cells, on average."""
    scores = _scores(sentences, centers)
    probed = (scores >= _least(scores, slack)).float()
    sizes = torch.bincount(scores.argmax(1), minlength=len(centers)).float()
    return float((probed @ sizes).mean() / len(sentences)), float(probed.sum(1).mean())


def in_chunks(work: Callable[[slice], T], rows: int, width: int, threads: int) -> list[T]:
    """The results of `work` for chunks of all rows, in order, computed by several threads."""
    size = max(AT_ONCE // max(width, 1), 1)
    slices = (slice(start, min(start + size, rows)) for start in range(0, rows, size))
    with ThreadPoolExecutor(threads, initializer=init_worker) as pool:
        return list(pool.map(work, slices))


def _scores(rows: Tensor, centers: Tensor) -> Tensor:
    """The products of rows and centers, those below zero as zero, in a form that is quick to compare.

    Bits of bfloat16 numbers that are not negative sort like integers, of which a CPU compares several times as many at once.
    """
    products = rows @ centers.T
    if products.dtype == torch.bfloat16 and products.device.type == "cpu":
        return products.view(torch.int16).clamp_(min=0)
    return products.clamp_(min=0)


def _values(scores: Tensor) -> Tensor:
    return (scores.view(torch.bfloat16) if scores.dtype == torch.int16 else scores).float()


def _level(scores: Tensor) -> Tensor:
    """The level of each row: half the largest score, half the mean of the largest of each group of cells."""
    rows, cells = scores.shape
    groups = min(GROUPS, cells)
    whole = scores[:, : cells // groups * groups].view(rows, cells // groups, groups)
    return (_values(scores.amax(1)) + _values(whole.amax(1)).mean(1)) / 2


def _least(scores: Tensor, slack: float) -> Tensor:
    """The lowest score that each row probes, as a column in the form of the scores."""
    least = torch.minimum((_level(scores) - slack).clamp_(min=0), _values(scores.amax(1)))[:, None]
    return least.bfloat16().view(torch.int16) if scores.dtype == torch.int16 else least.to(scores.dtype)

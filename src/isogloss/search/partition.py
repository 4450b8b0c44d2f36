"""Space cut into cells, the same for both sides: who lies in which cell, and which cells are worth a look for whom.

Cells are those of spherical k-means over the vectors of both sides, each without its mean (`sides`): what a language adds to
all its sentences would otherwise put translations into different cells. With c the center of a cell, a sentence x lies in the
cell of the greatest x′·c, and looks into every cell with

    x′·c  ≥  level(x) − slack,     level(x) = ½ max x′·c + ½ mean of the greatest x′·c in each of 32 groups of cells

(what is below zero counts as zero), and into its own. So a sentence in the thick of things looks into more cells than one on
its own; were the level the greatest score alone, a sixth more would have to be compared to find as many.

The pair (x, y) is compared if x looks into the cell of y or y into that of x. So it needs the lesser of two distances, and the
slack that finds a share of all pairs is that share's quantile of them: `slack_for` reads it off some pairs of neighbours that
are known, and nothing is tried out.

`cells` searches with this, `plans` says how many cells there should be.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.search.neighbours import init_worker
from isogloss.search.sides import Side
from isogloss.types import BoolArray, IntArray

PER_CELL = ((16, 4), (80, 3))  # sentences that a center is learnt from, and rounds of k-means with them: the first are cheap
TURNS = 3  # own cells, near ones, far ones
LOOKING_BYTES = 20  # what a look takes while those of a stripe are put in order
GROUPS = 32  # of cells, whose greatest scores make up half of a level
NEAR = 0.4  # of the way down to the least score worth a look: cells that a sentence looks into before the others
OWN_CELL = -1.0  # the slack that one's own cell takes: scores lie between 0 and 1
AT_ONCE = 2**22  # products
SEED = 7

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Locations:
    """One side in the cells: where each sentence lies, and the cells it looks into, row after row in one flat array."""

    own: IntArray
    looks: NDArray[np.int16]
    far: BoolArray  # which of them are not near
    ends: IntArray  # row i looks into looks[ends[i]:ends[i + 1]]

    def looked_into(self, rows: IntArray, cells: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int32]]:
        """What some rows look into: turn · cells + cell, and for each the place of its row among `rows`.

        The turn is 0 for a row's own cell, 1 for a near one, 2 for a far one.
        """
        counts = self.ends[rows + 1] - self.ends[rows]
        place = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
        small = np.min_scalar_type(-len(self.looks) - 1)  # of a sum that may pass below zero on its way
        where = np.repeat((self.ends[rows] - (np.cumsum(counts) - counts)).astype(small), counts)
        where += np.arange(len(place), dtype=small)
        looks = self.looks[where]
        turn = self.far[where].astype(np.min_scalar_type(TURNS * cells)) + 1  # so small that they sort quickly
        turn[looks == self.own[rows].astype(np.int16)[place]] = 0
        return turn * turn.dtype.type(cells) + looks.astype(turn.dtype), place

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return self.own.nbytes + self.looks.nbytes + self.far.nbytes + self.ends.nbytes


def learn_centers(left: Side, right: Side, cells: int, threads: int) -> Tensor:
    """Centres of so many cells, or of fewer where there are fewer sentences, in the form of the sides' coarse copies."""
    drawn = np.random.default_rng(SEED)
    centers: Tensor | None = None
    for per_cell, rounds in PER_CELL:
        sample = torch.cat([_drawn(side, cells * per_cell / (len(left) + len(right)), drawn) for side in (left, right)])
        sample[:, left.raw.shape[1] :] = 0  # the further columns say nothing of where a sentence lies
        if centers is None:
            first = torch.from_numpy(np.sort(drawn.permutation(len(sample))[:cells])).to(sample.device)
            centers = _unit(sample[first].float()).to(sample.dtype)
        for _ in range(rounds):
            centers = _moved(sample, centers, threads)
    assert centers is not None  # there are rounds
    return _neighbours_together(centers)


def _drawn(side: Side, share: float, drawn: np.random.Generator) -> Tensor:
    """Some of a side's coarse rows, one at least."""
    rows = np.sort(drawn.permutation(len(side))[: max(int(np.ceil(min(share, 1.0) * len(side))), 1)])
    return side.coarse[torch.from_numpy(rows).to(side.coarse.device)]


def _moved(sample: Tensor, centers: Tensor, threads: int) -> Tensor:
    """One round of k-means: centers go to the middle of what is nearest to them; empty ones stay where they are."""
    sums = torch.zeros(centers.shape, dtype=torch.float32, device=centers.device)

    def nearest(rows: slice) -> tuple[slice, Tensor]:
        return rows, _own(_scores(sample[rows], centers))

    for rows, own in in_chunks(nearest, len(sample), len(centers), threads):
        sums.index_add_(0, own, sample[rows].float())
    empty = sums.square().sum(1) == 0
    return torch.where(empty[:, None], centers, _unit(sums).to(centers.dtype))


def _unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1)


def _neighbours_together(centers: Tensor) -> Tensor:
    """The same centers, those near each other close by: sentences of a stripe then look into the same cells."""
    few = centers[:: max(int(len(centers) ** 0.5), 1)]
    order = torch.sort((centers.float() @ few.float().T).argmax(1), stable=True).indices
    return centers[order]


def locate(side: Side, centers: Tensor, slack: float, threads: int) -> Locations:
    """Where every sentence of a side lies, and what it looks into."""

    def some(rows: slice) -> tuple[Tensor, ...]:
        scores = _scores(side.coarse[rows], centers)
        best = scores.amax(1)
        least, near = _least(scores, best, slack)
        row, cell = (scores >= least[:, None]).nonzero(as_tuple=True)
        there = scores[row, cell]
        counts = torch.bincount(row, minlength=len(scores))
        found = cell[_first_of_each(row, there == best[row])], cell.to(torch.int16), there < near[row], counts
        return tuple(part.cpu() for part in found)

    own, looks, far, counts = (
        torch.cat(part).numpy() for part in zip(*in_chunks(some, len(side), len(centers), threads), strict=True)
    )
    return Locations(own, looks, far, np.concatenate([[0], np.cumsum(counts)]))


def distances(sentences: Tensor, cells_of: Tensor, centers: Tensor) -> Tensor:
    """How much slack each sentence (coarse) needs to look into the cell of another: its level less the score there."""
    scores = _scores(sentences, centers)
    theirs = _own(_scores(cells_of, centers))
    there = _values(scores.gather(1, theirs[:, None])[:, 0])
    return torch.where(_own(scores) == theirs, OWN_CELL, _level(scores, scores.amax(1)) - there)


def slack_for(share: float, needed: Tensor) -> float:
    """The least slack that finds this share of pairs, given what each of some pairs needs."""
    if not len(needed):
        return 0.0
    place = min(max(int(np.ceil(share * len(needed))), 1), len(needed)) - 1
    return float(needed.sort().values[place])


def looks_of(sentences: Tensor, centers: Tensor, slack: float) -> tuple[float, float]:
    """Which share of the cells some sentences look into, weighed by how many of the sentences lie there; and how many cells."""
    scores = _scores(sentences, centers)
    worth = (scores >= _least(scores, scores.amax(1), slack)[0][:, None]).float()
    sizes = torch.bincount(_own(scores), minlength=len(centers)).float()
    return float((worth @ sizes).mean() / len(sentences)), float(worth.sum(1).mean())


def in_chunks(work: Callable[[slice], T], rows: int, width: int, threads: int) -> list[T]:
    """What `work` gives for all rows, some at a time, in order, several at once."""
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


def _level(scores: Tensor, best: Tensor) -> Tensor:
    """How high the scores of each row are: half the greatest of all, half the mean of the greatest of each group of cells."""
    rows, cells = scores.shape
    groups = min(GROUPS, cells)
    whole = scores[:, : cells // groups * groups].view(rows, cells // groups, groups)
    return (_values(best) + _values(whole.amax(1)).mean(1)) / 2


def _least(scores: Tensor, best: Tensor, slack: float) -> tuple[Tensor, Tensor]:
    """From which score on a cell is worth a look, and from which on it is near, for each row, in the form of the scores."""
    top = _values(best)
    least = torch.minimum((_level(scores, best) - slack).clamp_(min=0), top)
    bounds = least, top + NEAR * (least - top)
    if scores.dtype == torch.int16:
        return bounds[0].bfloat16().view(torch.int16), bounds[1].bfloat16().view(torch.int16)
    return bounds[0].to(scores.dtype), bounds[1].to(scores.dtype)


def _own(scores: Tensor) -> Tensor:
    """The cell with the greatest score; of equals the first."""
    row, cell = (scores == scores.amax(1, keepdim=True)).nonzero(as_tuple=True)
    return cell[_first_of_each(row, torch.ones_like(row, dtype=torch.bool))]


def _first_of_each(row: Tensor, chosen: Tensor) -> Tensor:
    """Where the first chosen entry of every row is; rows ascend."""
    places = chosen.nonzero()[:, 0]
    owner = row[places]
    first = torch.ones_like(places, dtype=torch.bool)
    first[1:] = owner[1:] != owner[:-1]
    return places[first]

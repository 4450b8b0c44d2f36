"""The search by cells: a sentence is compared with those in the cells that it probes, for both directions.

An inverted index goes through lists one query at a time. Here, all sentences of a stripe that probe a cell are multiplied with
all sentences in it: a matrix product, at the speed of the exact search (`blockwise`), and every product counts for both
sentences. Floors, lists and exact cosines are those of the exact search, so only pairs that are not compared can be missed.

Cells are those of spherical k-means over the vectors of both sides, each with its mean subtracted (`sides`): otherwise the
offset of a language would put translations into different cells. With c the center of a cell, a sentence x is in the cell with
the largest x′·c, and probes its own cell and every cell with

    x′·c  ≥  level(x) − slack,     level(x) = ½ max x′·c + ½ mean of the greatest x′·c in each of 32 groups of cells

(negative values count as zero). So a sentence in a dense region probes more cells than an isolated one; with the largest score
alone as the level, a sixth more comparisons would be needed for the same recall.

A pair (x, y) is compared if x probes the cell of y or y that of x. So it needs the smaller of two slacks, and the slack for a
wanted recall is a quantile of these over known pairs of neighbors (`slack_for`); no trial searches are needed.

A stripe has sentences of one side in the order of their cells; first the left probes cells of the right, then the reverse.
Each sentence's own cell comes first, so that floors are high before most is compared. Sentences in the same cell are compared
when the left probes.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isogloss.search.approximate import SAMPLED, FoundNeighbors, Request, Sample, SearchAccount, target_recall
from isogloss.search.blockwise import Block, BlockSearch, CandidateList, Direction, comparable, most_listed, padded
from isogloss.search.neighbors import STAGE, both_ways
from isogloss.search.plan import PROBE_BYTES
from isogloss.search.sides import GROUP, Side, Sides, prepare_sides
from isogloss.search.stripes import Arrays, SearchState, init_worker, run_stripes, torch_configured
from isogloss.types import IntArray

STRIPE = 1 << 18  # sentences; with fewer, products are too small to be efficient
WORTH_IT = 0.35  # share of all comparisons; with more, an exact search is as fast
PARTS = ("own", "probes", "ends")
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
    """The products of rows and centers, those below zero as zero, in a form that is quick to compare."""
    return comparable(rows @ centers.T).clamp_(min=0)


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


class _ProbingSide(NamedTuple):
    """One side as it probes the cells of the other."""

    located: Locations
    order: IntArray  # its sentences by their cells
    members: IntArray  # the other side's sentences by their cells
    starts: IntArray  # and where the cells begin among them
    own: Direction
    back: Direction


class CellSearch(BlockSearch):
    """Compare sentences that probe each other's cells."""

    def __init__(self, sides: Sides, k: int, located: tuple[Locations, ...], cells: int, area: int, room: int) -> None:
        super().__init__(sides, k)
        self.cells, self.area, self.limit = cells, area, most_listed(room)
        orders = [np.argsort(one.own, kind="stable") for one in located]
        starts = [np.concatenate([[0], np.cumsum(np.bincount(one.own, minlength=cells))]) for one in located]
        self.sides = (
            _ProbingSide(located[0], orders[0], orders[1], starts[1], self.of_left, self.of_right),
            _ProbingSide(located[1], orders[1], orders[0], starts[0], self.of_right, self.of_left),
        )
        self.parts = [(one, rows) for one in self.sides for rows in np.array_split(one.order, _stripes(one.located, room // 2))]
        self.stripes, self.sentences = len(self.parts), len(sides.left) + len(sides.right)

    def lists(self, number: int) -> list[CandidateList]:
        """Of the sentences of the stripe, and of those in the cells that they probe."""
        probing, _ = self.parts[number]
        return [CandidateList(direction, self.limit // 4, self.limit) for direction in (probing.own, probing.back)]

    def blocks(self, number: int) -> Iterator[Block]:
        """The sentences that are compared, cell by cell: first in their own cells, then in the others."""
        probing, rows = self.parts[number]
        side, other = probing.own.owners, probing.own.others
        keys, place = probing.located.probed_by(rows, self.cells)
        place = place[np.argsort(keys, kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=2 * self.cells))])
        device, first = side.coarse.device, self.cells if probing is self.sides[1] else 0  # own cells were compared
        for key in range(first, 2 * self.cells):
            cell = key % self.cells
            members = torch.from_numpy(probing.members[probing.starts[cell] : probing.starts[cell + 1]]).to(device)
            start, end = bounds[key : key + 2].tolist()
            if start == end or not len(members):
                continue
            queries = torch.from_numpy(rows[place[start:end]]).to(device)
            for columns in torch.split(members, max(int(self.area**0.5), 1)):  # a cell may contain everything
                for some in torch.split(queries, max(self.area // len(columns), 1)):
                    products = side.coarse[_filled_up(some)] @ other.coarse[_filled_up(columns)].T
                    yield padded(products, some, columns, end / len(place))


def _stripes(located: Locations, room: int) -> int:
    """The number of stripes of a side: few, but the probes of one must fit into memory."""
    fitting = -(-len(located.probes) * SORTING_BYTES // max(room, 1))
    return max(-(-len(located.own) // STRIPE), min(fitting, len(located.own)), 1)


def _filled_up(ids: Tensor) -> Tensor:
    """The ids, padded with the last one to one of few lengths (four per doubling): each new shape is compiled anew."""
    step = max(1 << max(len(ids).bit_length() - 3, 0), GROUP)
    more = -len(ids) % step
    return torch.cat([ids, ids[-1:].expand(more)]) if more else ids


def by_cells(request: Request, samples: tuple[Sample, Sample]) -> FoundNeighbors:
    """The neighbors of both sides; all pairs are compared if that is as fast."""
    left, right, k, settings = request.left, request.right, request.k, request.settings
    on, plan = request.resources, request.plan
    parameters = (k, settings.normalize, settings.recall, str(on.dtype), plan.lists, STRIPE, SAMPLED, on.memory, on.threads)
    kept = SearchState(settings.folder, left, right, (plan.kind, *PARTS, *parameters))
    index_room = 3 * on.memory // 4
    with torch_configured(), prepare_sides(left, right, on.device, on.dtype, settings.normalize, index_room // 2) as sides:
        copies = sides.left.coarse.nbytes + sides.right.coarse.nbytes
        index = kept.index(lambda: _made(sides, request, samples, index_room - copies))
        compared = float(index["compared"])
        worth_it = "left_own" in index
        if worth_it:
            where = _locations(index)
            room = (on.memory - index_room) // on.threads
            search = CellSearch(sides, k, where, plan.lists, room // 4 // on.dtype.itemsize, room // 2)
            run_stripes(search, on.threads, kept, request.on_progress, STAGE)
            found = search.found()
    if not worth_it:
        why = f"{compared:.0%} of all comparisons would be needed"
        account = SearchAccount(kind="exact", why=why, compared=compared, recall_wanted=settings.recall)
        return FoundNeighbors(*both_ways(left, right, k, settings, request.on_progress), account)
    account = SearchAccount(
        kind=plan.kind,
        why=plan.why,
        lists=plan.lists,
        probes=sum(len(one.probes) for one in where) / (len(left) + len(right)),
        index_bytes=copies + sum(one.bytes for one in where),
        compared=compared,
        recall_wanted=settings.recall,
    )
    return FoundNeighbors(*found, account)


def _made(sides: Sides, request: Request, samples: tuple[Sample, Sample], room: int) -> Arrays:
    """The cells of all sentences; only the share of comparisons if cells would not help."""
    threads, cells = request.resources.threads, request.plan.lists
    ways = ((sides.left, sides.right), (sides.right, sides.left))
    centers = learn_centers(sides.left, sides.right, cells, threads)
    needed = [_needed(one, other, sample, centers) for (one, other), sample in zip(ways, samples, strict=True)]
    slack = slack_for(target_recall(request.settings.recall, sum(sample.half for sample in samples)), torch.cat(needed))
    share = probes = 0.0
    for (one, _), sample in zip(ways, samples, strict=True):
        of_side, probed = probed_share(_taken(one, sample.rows), centers, slack)
        share, probes = share + of_side, probes + probed * len(one)
    if share > WORTH_IT or probes * PROBE_BYTES > room:
        return {"compared": np.array(share)}
    arrays: Arrays = {}
    for name, (side, _) in zip(("left", "right"), ways, strict=True):
        located = locate(side, centers, slack, threads)
        arrays |= {f"{name}_{part}": getattr(located, part) for part in PARTS}
    arrays["compared"] = np.array(_compared(*_locations(arrays), cells))
    return arrays


def _locations(arrays: Arrays) -> tuple[Locations, Locations]:
    """Where the sentences of the left and of the right are."""
    left, right = (Locations(*(arrays[f"{side}_{part}"] for part in PARTS)) for side in ("left", "right"))
    return left, right


def _compared(left: Locations, right: Locations, cells: int) -> float:
    """The share of all comparisons that are made, those made twice counted twice."""
    count = 0.0
    for one, other in ((left, right), (right, left)):
        count += float(np.bincount(one.probes, minlength=cells) @ np.bincount(other.own, minlength=cells).astype(np.float64))
    return count / (len(left.own) * len(right.own))


def _needed(one: Side, other: Side, sample: Sample, centers: Tensor) -> Tensor:
    """The slack that each known pair of neighbors needs: the smaller of what its sentences need."""
    rows, ids = sample.pairs
    mine, theirs = _taken(one, rows), _taken(other, ids)
    return torch.minimum(distances(mine, theirs, centers), distances(theirs, mine, centers))


def _taken(side: Side, rows: IntArray) -> Tensor:
    return side.coarse[torch.from_numpy(rows).to(side.coarse.device)]

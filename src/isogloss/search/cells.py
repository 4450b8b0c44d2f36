"""The search by cells: a sentence is compared with those in the cells that it probes, for both directions.

An inverted index goes through lists one query at a time. Here, all sentences of a stripe that probe a cell are multiplied with
all sentences in it: a matrix product, at the speed of the exact search (`blockwise`), and every product counts for both
sentences. Floors, lists and exact cosines are those of the exact search, so only pairs that are not compared can be missed.

    stripes    sentences in the order of their cells: first the left probes cells of the right, then the reverse
    within     first each sentence's own cell, then near ones, then the others: floors are high before most is compared;
               sentences in the same cell are compared when the left probes
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isogloss.progress import OnProgress
from isogloss.search.approximate import SAMPLED, Found, Request, Sample, SearchAccount, sample_rows, target_recall
from isogloss.search.blockwise import LOWEST, CandidateList, Direction, ExactSearch, Search
from isogloss.search.neighbours import both_ways
from isogloss.search.partition import LOOKING_BYTES, TURNS, Locations, distances, learn_centers, locate, looks_of, slack_for
from isogloss.search.plan import LOOK_BYTES
from isogloss.search.sides import Side, Sides, prepare_sides
from isogloss.search.stripes import Arrays, Resources, SearchState, run_stripes, torch_configured
from isogloss.types import IntArray

STRIPE = 1 << 18  # sentences; with fewer, products are too small to be efficient
WORTH_IT = 0.35  # share of all comparisons; with more, an exact search is as fast
PARTS = ("own", "looks", "far", "ends")
FEWEST = 32  # numbers of sentences are rounded up to a multiple of this
GROUP = 16  # rows of a product whose maximum is checked first; FEWEST is a multiple of it


class _Asking(NamedTuple):
    """One side as it probes the cells of the other."""

    side: Side
    other: Side
    located: Locations
    order: IntArray  # its sentences by their cells
    members: IntArray  # the other side's sentences by their cells
    starts: IntArray  # and where the cells begin among them
    own: Direction
    back: Direction


class CellSearch(Search):
    """Compare sentences that probe each other's cells."""

    def __init__(self, sides: Sides, k: int, located: tuple[Locations, ...], cells: int, area: int, room: int) -> None:
        super().__init__(sides, k, room)
        self.cells, self.area = cells, area
        orders = [np.argsort(one.own, kind="stable") for one in located]
        starts = [np.concatenate([[0], np.cumsum(np.bincount(one.own, minlength=cells))]) for one in located]
        self.asking = (
            _Asking(self.left, self.right, located[0], orders[0], orders[1], starts[1], self.of_left, self.of_right),
            _Asking(self.right, self.left, located[1], orders[1], orders[0], starts[0], self.of_right, self.of_left),
        )
        self.parts = [
            (one, rows) for one in self.asking for rows in np.array_split(one.order, _stripes(one.located, room // 2))
        ]
        self.stripes, self.sentences = len(self.parts), len(self.left) + len(self.right)

    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Let the sentences of one stripe probe their cells, for both directions."""
        asking, rows_asking = self.parts[number]
        own, back = CandidateList(), CandidateList()
        lists = ((asking.own, own), (asking.back, back))
        thinned = [self.most_listed // 8] * 2
        turn = 0
        for now, done, rows, members in self._blocks(asking, rows_asking):
            if self.stopped.is_set():
                return False
            if now != turn:
                turn = now
                for direction, waiting in lists:
                    direction.thin(waiting)
            block = _product(asking.side, asking.other, rows, members)
            _list(asking.own, own, block, rows, members, 0)
            _list(asking.back, back, block, members, rows, 1)
            for place, (direction, waiting) in enumerate(lists):
                if waiting.length > 2 * thinned[place]:
                    direction.thin(waiting)
                    thinned[place] = max(waiting.length, self.most_listed // 8)
                if waiting.length > self.most_listed:
                    direction.settle(waiting)
            advanced(done)
        asking.own.settle(own)
        asking.back.settle(back)
        advanced(1.0)
        return True

    def _blocks(self, asking: _Asking, rows: IntArray) -> Iterator[tuple[int, float, Tensor, Tensor]]:
        """The rows that are compared, cell by cell, in turns, and the share of the stripe that is done then."""
        keys, place = asking.located.looked_into(rows, self.cells)
        place = place[np.argsort(keys, kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=TURNS * self.cells))])
        device, first = asking.side.coarse.device, self.cells if asking is self.asking[1] else 0  # own cells were compared
        for key in range(first, TURNS * self.cells):
            turn, where = divmod(key, self.cells)
            members = torch.from_numpy(asking.members[asking.starts[where] : asking.starts[where + 1]]).to(device)
            start, end = bounds[key : key + 2].tolist()
            if start == end or not len(members):
                continue
            lookers = torch.from_numpy(rows[place[start:end]]).to(device)
            for some in torch.split(members, max(int(self.area**0.5), 1)):  # a cell may contain everything
                for few in torch.split(lookers, max(self.area // len(some), 1)):
                    yield turn, end / len(place), few, some


def _stripes(located: Locations, room: int) -> int:
    """The number of stripes of a side: few, but the probes of one must fit into memory."""
    fitting = -(-len(located.looks) * LOOKING_BYTES // max(room, 1))
    return max(-(-len(located.own) // STRIPE), min(fitting, len(located.own)), 1)


def _product(one: Side, other: Side, rows: Tensor, members: Tensor) -> Tensor:
    """The coarse products of rows and members, padded with −∞ to one of few shapes: each new shape is compiled anew."""
    left, right = (side.coarse.index_select(0, _filled_up(ids)) for side, ids in ((one, rows), (other, members)))
    block = left @ right.T
    block[len(rows) :] = -torch.inf
    block[:, len(members) :] = -torch.inf
    return block


def _filled_up(ids: Tensor) -> Tensor:
    """The ids, padded with the last one to a round length: four per doubling."""
    step = max(1 << max(len(ids).bit_length() - 3, 0), FEWEST)
    more = -len(ids) % step
    return torch.cat([ids, ids[-1:].expand(more)]) if more else ids


def _list(direction: Direction, waiting: CandidateList, block: Tensor, owners: Tensor, others: Tensor, axis: int) -> None:
    """List entries that reach their owner's floor. Owners are along `axis`; those without a floor get one from this block."""
    floor = torch.full((block.shape[axis],), torch.inf, device=block.device)
    floor[: len(owners)] = direction.floor[owners]
    if len(others) >= direction.k and float(floor.min()) == LOWEST:
        new = (floor == LOWEST).nonzero()[:, 0]
        greatest = block.index_select(axis, new).float().topk(direction.k, dim=1 - axis).values
        floor[new] = greatest.select(1 - axis, -1) - 2 * direction.error
        direction.floor[owners] = torch.maximum(direction.floor[owners], floor[: len(owners)])
    place = _reaching(block, floor, axis)
    entries = block[place].float()
    worth = entries >= floor[place[axis]].clamp(min=LOWEST)  # −∞ is padding
    waiting.add(owners[place[axis][worth]], others[place[1 - axis][worth]], entries[worth])


def _reaching(block: Tensor, floor: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of entries that may reach the floors, which are along `axis`."""
    if block.dtype != torch.bfloat16 or block.device.type != "cpu":
        row, column = (block >= floor.unsqueeze(1 - axis)).nonzero(as_tuple=True)
        return row, column
    low = (floor <= 0).nonzero()[:, 0]
    if not len(low):
        return _reaching_high(block, floor, axis)
    few = (block.index_select(axis, low) >= floor[low].unsqueeze(1 - axis)).nonzero(as_tuple=True)
    places = list(_reaching_high(block, floor.index_fill(0, low, torch.inf), axis))
    places[axis], places[1 - axis] = torch.cat([places[axis], low[few[axis]]]), torch.cat([places[1 - axis], few[1 - axis]])
    return places[0], places[1]


def _reaching_high(block: Tensor, floor: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The same for floors above zero, and faster.

    Bits of positive bfloat16 numbers sort like integers (`blockwise.group_maxima`), and truncating a floor does not raise it.
    Few entries reach it, so maxima are checked first: of rows, and of groups of rows for columns.
    """
    numbers, least = block.view(torch.int16), (floor.view(torch.int32) >> 16).to(torch.int16)
    if axis == 0:
        near = (numbers.amax(1) >= least).nonzero()[:, 0]
        row, column = (numbers[near] >= least[near, None]).nonzero(as_tuple=True)
        return near[row], column
    groups = numbers.view(GROUP, -1, block.shape[1])  # a group is every so many-th row: memory is read in order
    group, column = (groups.amax(0) >= least).nonzero(as_tuple=True)
    member, hit = (groups[:, group, column] >= least[column]).nonzero(as_tuple=True)
    return member * groups.shape[1] + group[hit], column[hit]


def by_cells(request: Request) -> Found:
    """The neighbours of both sides; all pairs are compared if that is as fast."""
    left, right, k, settings = request.left, request.right, request.k, request.settings
    on, plan = request.resources, request.plan
    asked = (k, settings.normalize, settings.recall, str(on.dtype), plan.lists, STRIPE, SAMPLED, on.memory, on.threads)
    kept = SearchState(settings.folder, left, right, (plan.kind, *asked))
    index_room = 3 * on.memory // 4
    with (
        torch_configured(),
        prepare_sides(left, right, on.device, on.dtype, settings.normalize, index_room // 2) as sides,
    ):
        copies = sum(side.coarse.nbytes for side in (sides.left, sides.right))
        index = kept.index(lambda: _made(sides, request, index_room - copies))
        compared = float(index["compared"])
        worth_it = "left_own" in index
        if worth_it:
            where = tuple(Locations(*(index[f"{side}_{part}"] for part in PARTS)) for side in ("left", "right"))
            room = (on.memory - index_room) // on.threads
            search = CellSearch(sides, k, where, plan.lists, room // 4 // on.dtype.itemsize, room // 2)
            run_stripes(search, on.threads, kept, request.on_progress, request.stage)
            found = search.found()
    if not worth_it:
        why = f"{compared:.0%} of all comparisons would be needed"
        account = SearchAccount(kind="exact", why=why, compared=compared, recall_wanted=settings.recall)
        return Found(*both_ways(left, right, k, settings, request.on_progress, request.stage), account)
    looks = sum(len(one.looks) for one in where) / (len(left) + len(right))
    account = SearchAccount(kind=plan.kind, why=plan.why, lists=plan.lists, recall_wanted=settings.recall)
    account = replace(account, probes=looks, index_bytes=copies + sum(one.bytes for one in where), compared=compared)
    left_sample, right_sample = (Sample(index[f"{side}_rows"], index[f"{side}_ids"]) for side in ("left", "right"))
    return Found(*found, account, (left_sample, right_sample))


def _made(sides: Sides, request: Request, room: int) -> Arrays:
    """The cells of all sentences; only the share of comparisons if cells would not help."""
    on, plan, stage = request.resources, request.plan, f"{request.stage}: sample"
    ways = ((sides.left, sides.right), (sides.right, sides.left))
    samples = [
        _sample(Sides(one, other, sides.constant, sides.error), request.k, seed, on, request.on_progress, stage)
        for seed, (one, other) in enumerate(ways)
    ]
    centers = learn_centers(sides.left, sides.right, plan.lists, on.threads)
    needed = [_needed(one, other, sample, centers) for (one, other), sample in zip(ways, samples, strict=True)]
    slack = slack_for(target_recall(request.settings.recall, sum(sample.half for sample in samples)), torch.cat(needed))
    shares = looks = 0.0
    for (one, _), sample in zip(ways, samples, strict=True):
        share, cells = looks_of(_taken(one, sample.rows), centers, slack)
        shares, looks = shares + share, looks + cells * len(one)
    arrays: Arrays = {"compared": np.array(shares)}
    if shares > WORTH_IT or looks * LOOK_BYTES > room:
        return arrays
    where = [locate(one, centers, slack, on.threads) for one, _ in ways]
    for side, there, sample in zip(("left", "right"), where, samples, strict=True):
        arrays |= {f"{side}_{part}": getattr(there, part) for part in PARTS}
        arrays |= {f"{side}_rows": sample.rows, f"{side}_ids": sample.ids}
    return arrays | {"compared": np.array(_compared(where[0], where[1], plan.lists))}


def _compared(left: Locations, right: Locations, cells: int) -> float:
    """The share of all comparisons that are made, those made twice counted twice."""
    count = 0.0
    for one, other in ((left, right), (right, left)):
        count += float(np.bincount(one.looks, minlength=cells) @ np.bincount(other.own, minlength=cells).astype(np.float64))
    return count / (len(left.own) * len(right.own))


def _sample(sides: Sides, k: int, seed: int, on: Resources, on_progress: OnProgress, stage: str) -> Sample:
    """A sample of the left and its true neighbours on the right, from the same coarse copies."""
    rows = sample_rows(len(sides.left), seed)
    few = Sides(sides.left.some(torch.from_numpy(rows).to(on.device)), sides.right, sides.constant, sides.error)
    at_once = -(-len(rows) // on.threads)
    search = ExactSearch(few, k, (at_once, on.columns), False, on.memory // 8 // on.threads)
    run_stripes(search, on.threads, None, on_progress, stage)
    return Sample(rows, search.found()[0].ids)


def _needed(one: Side, other: Side, sample: Sample, centers: Tensor) -> Tensor:
    """The slack that each known pair of neighbours needs: the smaller of what its sentences need."""
    rows, ids = sample.pairs
    mine, theirs = _taken(one, rows), _taken(other, ids)
    return torch.minimum(distances(mine, theirs, centers), distances(theirs, mine, centers))


def _taken(side: Side, rows: IntArray) -> Tensor:
    return side.coarse[torch.from_numpy(rows).to(side.coarse.device)]

"""The search by cells: a sentence is compared with those in the cells that it probes, for both directions.

An inverted index goes through lists one query at a time. Here, all sentences of a stripe that probe a cell are multiplied with
all sentences in it: a matrix product, at the speed of the exact search (`blockwise`), and every product counts for both
sentences. Floors, lists and exact cosines are those of the exact search, so only pairs that are not compared can be missed.

    stripes    sentences in the order of their cells: first the left probes cells of the right, then the reverse
    within     first each sentence's own cell, then the others, so that floors are high before most is compared;
               sentences in the same cell are compared when the left probes
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isogloss.search.approximate import SAMPLED, Found, Request, Sample, SearchAccount, target_recall
from isogloss.search.blockwise import Block, BlockSearch, CandidateList, Direction, most_listed, padded
from isogloss.search.neighbours import both_ways
from isogloss.search.partition import SORTING_BYTES, Locations, distances, learn_centers, locate, probed_share, slack_for
from isogloss.search.plan import PROBE_BYTES
from isogloss.search.sides import GROUP, Side, Sides, prepare_sides
from isogloss.search.stripes import Arrays, SearchState, run_stripes, torch_configured
from isogloss.types import IntArray

STRIPE = 1 << 18  # sentences; with fewer, products are too small to be efficient
WORTH_IT = 0.35  # share of all comparisons; with more, an exact search is as fast
PARTS = ("own", "probes", "ends")


class _Asking(NamedTuple):
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
        self.asking = (
            _Asking(located[0], orders[0], orders[1], starts[1], self.of_left, self.of_right),
            _Asking(located[1], orders[1], orders[0], starts[0], self.of_right, self.of_left),
        )
        self.parts = [
            (one, rows) for one in self.asking for rows in np.array_split(one.order, _stripes(one.located, room // 2))
        ]
        self.stripes, self.sentences = len(self.parts), len(sides.left) + len(sides.right)

    def lists(self, number: int) -> list[CandidateList]:
        """Of the sentences of the stripe, and of those in the cells that they probe."""
        asking, _ = self.parts[number]
        return [CandidateList(direction, self.limit // 4, self.limit) for direction in (asking.own, asking.back)]

    def blocks(self, number: int) -> Iterator[Block]:
        """The sentences that are compared, cell by cell: first in their own cells, then in the others."""
        asking, rows = self.parts[number]
        side, other = asking.own.owners, asking.own.others
        keys, place = asking.located.probed_by(rows, self.cells)
        place = place[np.argsort(keys, kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=2 * self.cells))])
        device, first = side.coarse.device, self.cells if asking is self.asking[1] else 0  # own cells were compared
        for key in range(first, 2 * self.cells):
            cell = key % self.cells
            members = torch.from_numpy(asking.members[asking.starts[cell] : asking.starts[cell + 1]]).to(device)
            start, end = bounds[key : key + 2].tolist()
            if start == end or not len(members):
                continue
            probing = torch.from_numpy(rows[place[start:end]]).to(device)
            for columns in torch.split(members, max(int(self.area**0.5), 1)):  # a cell may contain everything
                for some in torch.split(probing, max(self.area // len(columns), 1)):
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


def by_cells(request: Request, samples: tuple[Sample, Sample]) -> Found:
    """The neighbours of both sides; all pairs are compared if that is as fast."""
    left, right, k, settings = request.left, request.right, request.k, request.settings
    on, plan = request.resources, request.plan
    asked = (k, settings.normalize, settings.recall, str(on.dtype), plan.lists, STRIPE, SAMPLED, on.memory, on.threads)
    kept = SearchState(settings.folder, left, right, (plan.kind, *asked))
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
            run_stripes(search, on.threads, kept, request.on_progress, request.stage)
            found = search.found()
    if not worth_it:
        why = f"{compared:.0%} of all comparisons would be needed"
        account = SearchAccount(kind="exact", why=why, compared=compared, recall_wanted=settings.recall)
        return Found(*both_ways(left, right, k, settings, request.on_progress, request.stage), account)
    account = SearchAccount(
        kind=plan.kind,
        why=plan.why,
        lists=plan.lists,
        probes=sum(len(one.probes) for one in where) / (len(left) + len(right)),
        index_bytes=copies + sum(one.bytes for one in where),
        compared=compared,
        recall_wanted=settings.recall,
    )
    return Found(*found, account)


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
    """The slack that each known pair of neighbours needs: the smaller of what its sentences need."""
    rows, ids = sample.pairs
    mine, theirs = _taken(one, rows), _taken(other, ids)
    return torch.minimum(distances(mine, theirs, centers), distances(theirs, mine, centers))


def _taken(side: Side, rows: IntArray) -> Tensor:
    return side.coarse[torch.from_numpy(rows).to(side.coarse.device)]

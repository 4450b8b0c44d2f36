"""The search by cells from end to end: sample, make cells, tune, locate all sentences, search.

`partition` has the mathematics and `cells` the search; here they are combined, and their results saved.
"""

import numpy as np
import torch
from torch import Tensor

from isogloss.progress import OnProgress
from isogloss.search.blockwise import GROUP, ExactSearch
from isogloss.search.cells import STRIPE, CellSearch
from isogloss.search.neighbours import Neighbours, Resources, run_stripes, torch_configured
from isogloss.search.partition import Locations, distances, learn_centers, locate, looks_of, slack_for
from isogloss.search.plan import LOOK_BYTES
from isogloss.search.recall import SAMPLED, Candidates, Request, Sample, SearchAccount, sample_rows, target_recall
from isogloss.search.resume import Arrays, SearchState
from isogloss.search.sides import Side, Sides, prepare_sides
from isogloss.types import IntArray

WORTH_IT = 0.35  # share of all comparisons; with more, an exact search is as fast
PARTS = ("own", "looks", "far", "ends")


def by_cells(request: Request) -> tuple[SearchAccount, Candidates | None]:
    """An account, and the neighbours of both sides; None if comparing all pairs is as fast."""
    left, right, k, settings = request.left, request.right, request.k, request.settings
    on, plan = request.resources, request.plan
    asked = (
        plan.kind,
        k,
        settings.normalize,
        settings.recall,
        str(on.dtype),
        plan.lists,
        STRIPE,
        SAMPLED,
        on.memory,
        on.threads,
    )
    kept = SearchState(settings.folder, left, right, asked)
    index_room = 3 * on.memory // 4
    with (
        torch_configured(on),
        prepare_sides(left, right, on.device, on.dtype, GROUP, settings.normalize, index_room // 2) as sides,
    ):
        copies = sum(side.coarse.nbytes for side in (sides.left, sides.right))
        index = kept.index(lambda: _made(sides, request, index_room - copies))
        compared = float(index["compared"])
        if "left_own" not in index:
            why = f"{compared:.0%} of all comparisons would be needed"
            return SearchAccount(kind="exact", why=why, compared=compared, recall_wanted=settings.recall), None
        where = Locations(*(index[f"left_{part}"] for part in PARTS)), Locations(*(index[f"right_{part}"] for part in PARTS))
        samples = Sample(index["left_rows"], index["left_ids"]), Sample(index["right_rows"], index["right_ids"])
        room = (on.memory - index_room) // on.threads
        search = CellSearch(sides, k, where, plan.lists, room // 4 // on.dtype.itemsize, room // 2)
        run_stripes(search, on.threads, kept, request.on_progress, request.stage)
        of_left, left_similarity, of_right, right_similarity = search.found()
    looks = sum(len(one.looks) for one in where) / (len(left) + len(right))
    account = SearchAccount(
        kind=plan.kind,
        why=plan.why,
        lists=plan.lists,
        probes=looks,
        index_bytes=copies + sum(one.bytes for one in where),
        compared=compared,
        recall_wanted=settings.recall,
    )
    return account, Candidates(Neighbours(of_left, left_similarity), Neighbours(of_right, right_similarity), samples)


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
    few = Sides(sides.left.some(_on(sides.left, rows)), sides.right, sides.constant, sides.error)
    at_once = -(-len(rows) // on.threads)
    search = ExactSearch(few, k, (at_once, on.columns), False, on.memory // 8 // on.threads)
    run_stripes(search, on.threads, SearchState.nothing(), on_progress, stage)
    return Sample(rows, search.found()[0])


def _needed(one: Side, other: Side, sample: Sample, centers: Tensor) -> Tensor:
    """The slack that each known pair of neighbours needs: the smaller of what its sentences need."""
    rows, ids = sample.pairs
    mine, theirs = _taken(one, rows), _taken(other, ids)
    return torch.minimum(distances(mine, theirs, centers), distances(theirs, mine, centers))


def _taken(side: Side, rows: IntArray) -> Tensor:
    return side.coarse[_on(side, rows)]


def _on(side: Side, rows: IntArray) -> Tensor:
    return torch.from_numpy(rows).to(side.coarse.device)

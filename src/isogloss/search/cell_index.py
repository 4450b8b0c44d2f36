"""The search by cells from end to end: sample, cut space into cells, tune, locate everybody, search.

`partition` has the mathematics, `cells` the search; here they are put together, and what they made is kept.
"""

import numpy as np
import torch
from torch import Tensor

from isogloss.config.mining import SearchSettings
from isogloss.progress import OnProgress
from isogloss.search.blockwise import GROUP, AllWithAll
from isogloss.search.cells import STRIPE, CellSearch
from isogloss.search.neighbours import Neighbours, SearchPlan, Vectors, run_stripes, torch_as_planned
from isogloss.search.partition import Located, distances, learnt_centres, located, looks_of, slack_for
from isogloss.search.plan import LOOK_BYTES, Plan
from isogloss.search.recall import SAMPLED, Met, Sample, SearchAccount, aim, drawn_rows
from isogloss.search.resume import Arrays, Kept
from isogloss.search.sides import Side, Sides, prepared
from isogloss.types import IntArray

WORTH_IT = 0.35  # of all comparisons; with more, an exact search is as quick
PARTS = ("own", "looks", "far", "ends")


def by_cells(
    left: Vectors,
    right: Vectors,
    k: int,
    settings: SearchSettings,
    on: SearchPlan,
    plan: Plan,
    on_progress: OnProgress,
    stage: str,
) -> tuple[SearchAccount, Met | None]:
    """An account, and the neighbours of both sides, or None where comparing all with all is as quick."""
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
    kept = Kept(settings.folder, left, right, asked)
    index_room = 3 * on.memory // 4
    with (
        torch_as_planned(on),
        prepared(left, right, on.device, on.dtype, GROUP, settings.normalize, index_room // 2) as sides,
    ):
        copies = sum(side.coarse.nbytes for side in (sides.left, sides.right))
        index = kept.index(lambda: _made(sides, k, settings.recall, on, plan, index_room - copies, on_progress, stage))
        compared = float(index["compared"])
        if "left_own" not in index:
            why = f"{compared:.0%} of all comparisons would be needed"
            return SearchAccount(kind="exact", why=why, compared=compared, recall_wanted=settings.recall), None
        where = Located(*(index[f"left_{part}"] for part in PARTS)), Located(*(index[f"right_{part}"] for part in PARTS))
        samples = Sample(index["left_rows"], index["left_ids"]), Sample(index["right_rows"], index["right_ids"])
        room = (on.memory - index_room) // on.threads
        search = CellSearch(sides, k, where, plan.lists, room // 4 // on.dtype.itemsize, room // 2)
        run_stripes(search, on.threads, kept, on_progress, stage)
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
    return account, Met(Neighbours(of_left, left_similarity), Neighbours(of_right, right_similarity), samples)


def _made(
    sides: Sides, k: int, recall: float, on: SearchPlan, plan: Plan, room: int, on_progress: OnProgress, stage: str
) -> Arrays:
    """The cells of everybody; without them where they would not help."""
    ways = ((sides.left, sides.right), (sides.right, sides.left))
    samples = [
        _sample(Sides(one, other, sides.constant, sides.error), k, seed, on, on_progress, f"{stage}: sample")
        for seed, (one, other) in enumerate(ways)
    ]
    centres = learnt_centres(sides.left, sides.right, plan.lists, on.threads)
    needed = [_needed(one, other, sample, centres) for (one, other), sample in zip(ways, samples, strict=True)]
    slack = slack_for(aim(recall, sum(sample.half for sample in samples)), torch.cat(needed))
    shares = looks = 0.0
    for (one, _), sample in zip(ways, samples, strict=True):
        share, cells = looks_of(_taken(one, sample.rows), centres, slack)
        shares, looks = shares + share, looks + cells * len(one)
    arrays: Arrays = {"compared": np.array(shares)}
    if shares > WORTH_IT or looks * LOOK_BYTES > room:
        return arrays
    where = [located(one, centres, slack, on.threads) for one, _ in ways]
    for side, there, sample in zip(("left", "right"), where, samples, strict=True):
        arrays |= {f"{side}_{part}": getattr(there, part) for part in PARTS}
        arrays |= {f"{side}_rows": sample.rows, f"{side}_ids": sample.ids}
    return arrays | {"compared": np.array(_compared(where[0], where[1], plan.lists))}


def _compared(left: Located, right: Located, cells: int) -> float:
    """The share of all comparisons that are made, those made twice counted twice."""
    count = 0.0
    for one, other in ((left, right), (right, left)):
        count += float(np.bincount(one.looks, minlength=cells) @ np.bincount(other.own, minlength=cells).astype(np.float64))
    return count / (len(left.own) * len(right.own))


def _sample(sides: Sides, k: int, seed: int, on: SearchPlan, on_progress: OnProgress, stage: str) -> Sample:
    """Some sentences of the left and their true neighbours among the right, from the same coarse copies."""
    rows = drawn_rows(len(sides.left), seed)
    few = Sides(sides.left.some(_on(sides.left, rows)), sides.right, sides.constant, sides.error)
    at_once = -(-len(rows) // on.threads)
    search = AllWithAll(few, k, (at_once, on.columns), False, on.memory // 8 // on.threads)
    run_stripes(search, on.threads, Kept.nothing(), on_progress, stage)
    return Sample(rows, search.found()[0])


def _needed(one: Side, other: Side, sample: Sample, centres: Tensor) -> Tensor:
    """The slack that each known pair of neighbours needs: the lesser of what the two sentences need."""
    rows, ids = sample.pairs
    mine, theirs = _taken(one, rows), _taken(other, ids)
    return torch.minimum(distances(mine, theirs, centres), distances(theirs, mine, centres))


def _taken(side: Side, rows: IntArray) -> Tensor:
    return side.coarse[_on(side, rows)]


def _on(side: Side, rows: IntArray) -> Tensor:
    return torch.from_numpy(rows).to(side.coarse.device)

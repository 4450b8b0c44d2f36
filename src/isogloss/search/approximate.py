"""Neighbours without comparing all with all: what is missed is measured, and everything that is found is exact.

    plan      exact, by cells, or with an index of faiss (`plans`)
    sample    some sentences of each side are compared with everything (`recall`)
    tune      until one half of them finds as many of its neighbours as was asked for
    search    stripe by stripe (`neighbours.run_stripes`); cosines are those of double precision (`ranking`)
    measure   which share of the other half's neighbours was found: the recall that is told

Where tuning finds that hardly anything would be saved, the search is exact. Sentences that met too few others are compared with
everything. With a folder, the index is kept in it beside the
state of the search, and interrupted work goes on from there (`resuming`).
"""

from dataclasses import dataclass, replace

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.progress import OnProgress, Step, silent
from isogloss.search.neighbours import (
    Neighbours,
    SearchPlan,
    Vectors,
    both_ways,
    neighbours,
    nobody,
    planned,
    refuse_misfits,
)
from isogloss.search.plan import Machine, Plan, choose
from isogloss.search.recall import SearchAccount, measured


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The neighbours of both sides, and how they were found."""

    left: Neighbours
    right: Neighbours
    account: SearchAccount


def search_both_ways(
    left: Vectors,
    right: Vectors,
    k: int,
    settings: SearchSettings | None = None,
    on_progress: OnProgress = silent,
    stage: str = "neighbours",
) -> Found:
    """The k nearest of every sentence on the other side, as `settings.search` says, and an account of how it was done."""
    how = settings or SearchSettings()
    refuse_misfits(left, right, k, how)
    plan, on = plan_for(left, right, how)
    if not len(left) or not len(right):
        return Found(nobody(len(left)), nobody(len(right)), SearchAccount(kind="exact", why="there is nothing to search"))
    on_progress(Step(stage, 0, len(left) + len(right), "sentences", f"{plan.kind}: {plan.why}"))
    account = SearchAccount(kind="exact", why=plan.why)
    if plan.kind != "exact":
        if plan.kind == "cells":
            from isogloss.search.cell_index import by_cells as approximately
        else:
            from isogloss.search.faiss_index import by_faiss as approximately
        account, met = approximately(left, right, k, how, on, plan, on_progress, stage)
        if met is not None:
            exact = how.replace(folder=None)
            found = _completed(left, right, met.left, exact), _completed(right, left, met.right, exact)
            recall, sentences = measured(met.samples, found)
            return Found(*found, replace(account, recall=recall, sampled=sentences))
    return Found(*both_ways(left, right, k, how, on_progress, stage), account)


def _completed(asking: Vectors, other: Vectors, found: Neighbours, settings: SearchSettings) -> Neighbours:
    """The same, with neighbours for the few sentences that met fewer than k others."""
    rows = np.flatnonzero(found.ids[:, -1] < 0)
    if len(rows):
        some: Vectors = asking[rows]
        missing = neighbours(some, other, found.k, settings)
        found.ids[rows], found.similarity[rows] = missing.ids, missing.similarity
    return found


def plan_for(left: Vectors, right: Vectors, settings: SearchSettings) -> tuple[Plan, SearchPlan]:
    """How two sides would be searched on this machine."""
    on = planned(left, right, settings)
    machine = Machine(on.threads, on.device == "cuda", on.dtype.itemsize)
    return choose(len(left), len(right), left.shape[1], on.memory, settings.recall, settings.search, machine), on

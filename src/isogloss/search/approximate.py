"""Search without comparing all pairs. The recall is measured, and the cosines of what is found are exact.

    plan      exact, by cells, or with a faiss index (`plan`)
    sample    some sentences of each side are compared with everything (`recall`)
    tune      until one half of the sample finds the wanted share of its neighbours
    search    stripe by stripe (`neighbours.run_stripes`); cosines are exact (`exact_order`)
    measure   the share of the other half's neighbours that was found: the reported recall

If tuning shows that little would be saved, the search is exact. Sentences that were compared with fewer than k others are
compared with everything. With a folder, the index and the state of the search are kept there (`resume`).
"""

from dataclasses import dataclass, replace

import numpy as np

from isogloss.config.mining import SearchSettings
from isogloss.progress import OnProgress, Step, silent
from isogloss.search.neighbours import (
    Neighbours,
    Resources,
    Vectors,
    both_ways,
    neighbours,
    no_neighbours,
    refuse_misfits,
    resources_for,
)
from isogloss.search.plan import Machine, Plan, choose
from isogloss.search.recall import Request, SearchAccount, measure_recall


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
    """The k nearest neighbours of every sentence on the other side, and how `settings.search` found them."""
    how = settings or SearchSettings()
    refuse_misfits(left, right, k, how)
    plan, on = plan_for(left, right, how)
    if not len(left) or not len(right):
        return Found(
            no_neighbours(len(left)), no_neighbours(len(right)), SearchAccount(kind="exact", why="there is nothing to search")
        )
    on_progress(Step(stage, 0, len(left) + len(right), "sentences", f"{plan.kind}: {plan.why}"))
    account = SearchAccount(kind="exact", why=plan.why)
    if plan.kind != "exact":
        if plan.kind == "cells":
            from isogloss.search.cell_index import by_cells as approximately
        else:
            from isogloss.search.faiss_index import by_faiss as approximately
        account, met = approximately(Request(left, right, k, how, on, plan, on_progress, stage))
        if met is not None:
            exact = how.replace(folder=None)
            found = _completed(left, right, met.left, exact), _completed(right, left, met.right, exact)
            recall, sentences = measure_recall(met.samples, found)
            return Found(*found, replace(account, recall=recall, sampled=sentences))
    return Found(*both_ways(left, right, k, how, on_progress, stage), account)


def _completed(asking: Vectors, other: Vectors, found: Neighbours, settings: SearchSettings) -> Neighbours:
    """Search again, exactly, for the few sentences that were compared with fewer than k others."""
    rows = np.flatnonzero(found.ids[:, -1] < 0)
    if len(rows):
        queries: Vectors = asking[rows]
        missing = neighbours(queries, other, found.k, settings)
        found.ids[rows], found.similarity[rows] = missing.ids, missing.similarity
    return found


def plan_for(left: Vectors, right: Vectors, settings: SearchSettings) -> tuple[Plan, Resources]:
    """How two sides are searched on this machine."""
    on = resources_for(left, right, settings)
    machine = Machine(on.threads, on.device == "cuda", on.dtype.itemsize)
    return choose(len(left), len(right), left.shape[1], on.memory, settings.recall, settings.search, machine), on

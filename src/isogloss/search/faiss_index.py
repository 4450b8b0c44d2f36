"""The search with a faiss index, for what does not fit into memory otherwise: one side at a time, as codes or as a graph.

    ivf-pq   lists of codes of four bits per few columns, compared in registers (IVF…,PQ…x4fs)
    hnsw     a graph over vectors in half precision (HNSW…,SQfp16)

As in the coarse copies (`sides`), means are subtracted: with x = m + x′ and y = n + y′, the y are ranked for one x by
x′·y′ + m·y′, so

    in the index   [ y′, m·y′, r, 0 … ]          queried with   [ x′, 1, 0, 0 … ]

With r = 0 these are compared by dot product, as lists do. A graph needs distances: r extends all vectors to the length of the
longest, and the smallest distance is the largest product (Bachrach et al. 2014).

The index finds candidates; they are ranked by their exact cosines, and count for both sentences. Nothing else
in isogloss knows faiss.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from isogloss.checksums import is_usable, sealing
from isogloss.errors import ModelError, optional_package
from isogloss.progress import Step
from isogloss.search.approximate import FoundNeighbors, Request, Sample, SearchAccount, recall_of, target_recall
from isogloss.search.blockwise import Search, cosines
from isogloss.search.neighbors import STAGE
from isogloss.search.plan import LINKS, REFINED, Plan, index_width
from isogloss.search.sides import Side, Sides, without_copies
from isogloss.search.stripes import SearchState, run_stripes, torch_configured
from isogloss.types import FloatArray

faiss = optional_package(
    "faiss",
    ModelError(
        "an index for data that does not fit into memory needs the package faiss",
        hint="pip install 'isogloss[mining]', or allow more memory, or set --search exact",
    ),
)

STRIPE = 4096  # sentences per query
ADDED_AT_ONCE = 8192
PER_LIST = 32  # training sentences per list
ROUNDS = 6
BUILDING_DEPTH = 80
MOST_REFINED = 64  # candidates for each neighbor
DEEPEST = 4096
LITTLE = 0.001  # the smallest gain in recall that justifies half as many probes again


class Tuned(NamedTuple):
    """The effort of a search: lists to probe (or depth in a graph), and candidates to rank again."""

    probes: int
    candidates: int


def by_faiss(request: Request, samples: tuple[Sample, Sample]) -> FoundNeighbors:
    """The neighbors of both sides."""
    left, right, k, settings = request.left, request.right, request.k, request.settings
    on, plan = request.resources, request.plan
    sides = without_copies(left, right, settings.normalize)
    parameters = (k, settings.normalize, settings.recall, plan.kind, plan.lists, plan.code_width, STRIPE)
    found, probes, size = None, 0.0, 0
    for turn, (querying, other) in enumerate(((sides.left, sides.right), (sides.right, sides.left))):
        kept = SearchState(settings.folder, left, right, (*parameters, turn))
        with torch_configured(), _threads(on.threads):
            index = _kept_index(request, kept.index_path(".faiss"), other, querying)
            size = max(size, index_bytes(index))
            tuned = tune(index, plan, querying, samples[turn], k, settings.recall)
            search = FaissSearch(index, sides, turn == 1, k, tuned)
            if found is not None:
                search.resume(found)
            run_stripes(search, on.threads, kept, request.on_progress, STAGE)
        found, probes = search.found(), probes + tuned.probes / 2
    assert found is not None  # two turns were taken
    account = SearchAccount(
        kind=plan.kind, why=plan.why, lists=plan.lists, probes=probes, index_bytes=size, recall_wanted=settings.recall
    )
    return FoundNeighbors(*found, account)


class FaissSearch(Search):
    """One side queries an index of the other; what it finds is ranked again, for both directions."""

    def __init__(self, index: Any, sides: Sides, swapped: bool, k: int, tuned: Tuned) -> None:  # noqa: ANN401
        super().__init__(sides, k)
        self.index, self.tuned = index, tuned
        both = (self.of_left, self.of_right)
        self.own, self.back = both[::-1] if swapped else both
        self.sentences = len(self.own.owners)
        self.stripes = -(-self.sentences // STRIPE)
        _set_probes(index, tuned.probes)

    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Search the index for some sentences."""
        if self.stopped.is_set():
            return False
        querying, other = self.own.owners, self.own.others
        faiss.omp_set_num_threads(1)  # of this thread: stripes are searched several at once
        rows = torch.arange(number * STRIPE, min((number + 1) * STRIPE, len(querying)))
        ids = torch.from_numpy(self.index.search(as_queries(querying, rows), min(self.tuned.candidates, len(other)))[1])
        place, column = (ids >= 0).nonzero(as_tuple=True)
        owner, member = rows[place], ids[place, column]
        exact = cosines(querying, other, owner, member)
        with self.own.lock:
            self.own.best.merge(owner, member, exact)
        order = torch.sort(member, stable=True).indices
        with self.back.lock:
            self.back.best.merge(member[order], owner[order], exact[order])
        advanced(1.0)
        return True


def as_queries(side: Side, rows: torch.Tensor) -> FloatArray:
    """Vectors in the form that queries the index of the other side."""
    found = np.zeros((len(rows), index_width(side.raw.shape[1])), dtype=np.float32)
    vectors = side.raw[rows].double() * side.scale[rows, None] - side.mean
    found[:, : vectors.shape[1]] = vectors
    found[:, vectors.shape[1]] = 1
    return found


def as_entries(side: Side, querying: Side, rows: torch.Tensor, length: float = 0.0) -> FloatArray:
    """Vectors as entries of an index that `querying` queries; with a length, all are extended to it."""
    found = as_queries(side, rows)
    width = side.raw.shape[1]
    found[:, width] = found[:, :width] @ querying.mean.numpy().astype(np.float32)
    if length:
        found[:, width + 1] = np.sqrt(np.maximum(length**2 - (found * found).sum(axis=1), 0))
    return found


def _blocks(side: Side) -> Iterator[torch.Tensor]:
    for start in range(0, len(side), ADDED_AT_ONCE):
        yield torch.arange(start, min(start + ADDED_AT_ONCE, len(side)))


def _longest(side: Side, querying: Side) -> float:
    """The length of the longest vector in an index."""
    return max(float(np.linalg.norm(as_entries(side, querying, rows), axis=1).max()) for rows in _blocks(side))


def tune(index: Any, plan: Plan, querying: Side, sample: Sample, k: int, recall: float) -> Tuned:  # noqa: ANN401
    """Probe more until the first half of a sample has the wanted recall; more candidates once more probes no longer help."""
    queries = as_queries(querying, torch.from_numpy(sample.rows[: sample.half]))
    true, wanted = sample.ids[: sample.half], target_recall(recall, sample.half)
    most = plan.lists or DEEPEST
    probes, candidates, before = min(plan.probes, most), REFINED * k, 0.0
    while True:
        _set_probes(index, max(probes, candidates if not plan.lists else 0))
        share = recall_of(true, index.search(queries, min(candidates, index.ntotal))[1])
        further, deeper = probes < most, candidates < min(MOST_REFINED * k, index.ntotal)
        if share >= wanted or not (further or deeper):
            return Tuned(max(probes, candidates if not plan.lists else 0), candidates)
        if further and (share - before > LITTLE or not deeper):
            probes = min(probes + (probes + 1) // 2, most)
        else:
            candidates *= 2
        before = share


def _set_probes(index: Any, probes: int) -> None:  # noqa: ANN401
    """Set how many lists are probed, or how deep a graph is searched."""
    if hasattr(index, "hnsw"):
        index.hnsw.efSearch = probes
    else:
        index.nprobe = probes


def _kept_index(request: Request, path: Path | None, side: Side, querying: Side) -> Any:  # noqa: ANN401 - faiss has no types
    """The index of a side: loaded if it was saved, otherwise built and saved."""
    if path is not None and is_usable(path):
        return faiss.read_index(str(path))
    plan = request.plan
    index = trained_index(plan, side, querying, request.resources.memory // 8)
    length = _longest(side, querying) if plan.kind == "hnsw" else 0.0
    for rows in _blocks(side):
        index.add(as_entries(side, querying, rows, length))
        request.on_progress(Step(f"{STAGE}: index", int(rows[-1]) + 1, len(side), "sentences", plan.kind))
    if path is not None:
        with sealing(path) as temporary:
            faiss.write_index(index, str(temporary))
    return index


def trained_index(plan: Plan, side: Side, querying: Side, room: int) -> Any:  # noqa: ANN401
    """An empty, trained index."""
    width = index_width(side.raw.shape[1])
    wanted = min(max(PER_LIST * plan.lists, 2**14), max(room // (8 * width), 256))
    drawn = np.random.default_rng(0).permutation(len(side))[:wanted]
    sample = as_entries(side, querying, torch.from_numpy(np.sort(drawn)))
    if plan.kind == "hnsw":
        index = faiss.index_factory(width, f"HNSW{LINKS},SQfp16", faiss.METRIC_L2)
        index.hnsw.efConstruction = BUILDING_DEPTH
    else:
        kind = f"IVF{plan.lists},PQ{width // plan.code_width}x4fs"
        index = faiss.index_factory(width, kind, faiss.METRIC_INNER_PRODUCT)
        for training in (index.cp, index.pq.cp):
            training.niter, training.min_points_per_centroid = ROUNDS, 1
    if len(sample) < max(plan.lists, 16):  # fewer than there are centers: repeat them
        sample = np.resize(sample, (max(plan.lists, 16), width))
    index.train(sample)
    return index


def index_bytes(index: Any) -> int:  # noqa: ANN401
    """The size of an index, as it would be written."""
    sizes: list[int] = []

    def count(data: bytes) -> int:
        sizes.append(len(data))
        return len(data)

    faiss.write_index(index, faiss.PyCallbackIOWriter(count, 1 << 20))
    return sum(sizes)


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Use this many threads for training, adding and tuning."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)

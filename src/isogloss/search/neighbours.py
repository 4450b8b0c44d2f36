"""Exact nearest neighbours by cosine: `neighbours` in one direction, `both_ways` in both from one matrix product.

They choose how to search (device, precision, sizes, threads) and keep finished work (`resume`). `blockwise` is the search,
`exact_order` makes it exact, `small` is a shortcut for small inputs, and `approximate` is for inputs too large to compare all
pairs.
"""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isogloss.config.mining import SearchSettings
from isogloss.errors import DataError
from isogloss.models.loading import choose_device
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    import torch

    from isogloss.search.blockwise import Search
    from isogloss.search.resume import SearchState

Vectors = NDArray[np.float16] | NDArray[np.float32]

CPU_MEMORY = 2**30  # default, in bytes beyond the vectors
CUDA_SHARE = 0.25  # default on a GPU: this share of its free memory
CPU_BLOCK, CUDA_BLOCK, SMALLEST_BLOCK = 2048, 32768, 128
LARGE = 10**8  # products; for fewer, precision does not matter for speed
LOOK_SECONDS = 0.2
PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """For every row of one side its nearest rows of the other: n × k, the nearest first; ties in order of rows."""

    ids: IntArray
    similarity: FloatArray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def k(self) -> int:
        """Neighbours per row."""
        return int(self.ids.shape[1])

    def first(self, k: int) -> "Neighbours":
        """The nearest k."""
        return Neighbours(self.ids[:, :k], self.similarity[:, :k])

    @property
    def mean(self) -> FloatArray:
        """The mean cosine of each row to its neighbours; 0 if it has none."""
        mean: FloatArray = (self.similarity.sum(axis=1, dtype=np.float64) / max(self.k, 1)).astype(np.float32)
        return mean


def both_ways(
    left: Vectors,
    right: Vectors,
    k: int,
    settings: SearchSettings | None = None,
    on_progress: OnProgress = silent,
    stage: str = "neighbours",
) -> tuple[Neighbours, Neighbours]:
    """The k nearest right rows of every left row, and the k nearest left rows of every right row.

    Vectors may be float16 or float32, in memory or memory-mapped. Cosines are computed in double precision and rounded once.
    """
    return _searched(left, right, k, True, settings or SearchSettings(), on_progress, stage)


def neighbours(
    queries: Vectors,
    candidates: Vectors,
    k: int,
    settings: SearchSettings | None = None,
    on_progress: OnProgress = silent,
    stage: str = "neighbours",
) -> Neighbours:
    """The k nearest candidates of every query; see `both_ways`."""
    return _searched(queries, candidates, k, False, settings or SearchSettings(), on_progress, stage)[0]


def nearest(queries: Vectors, candidates: Vectors) -> IntArray:
    """The row of every query's nearest candidate by cosine; the first of equals."""
    found = neighbours(queries, candidates, 1)
    ids: IntArray = found.ids[:, 0] if found.k else np.empty(0, dtype=np.int64)
    return ids


def pair_cosines(left: Vectors, right: Vectors, rows: IntArray, columns: IntArray) -> FloatArray:
    """The cosine of left row rows[i] with right row columns[i], in double precision, rounded once."""
    found = np.zeros(len(rows), dtype=np.float32)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        one = left[rows[start : start + PAIRS_AT_ONCE]].astype(np.float64)
        other = right[columns[start : start + PAIRS_AT_ONCE]].astype(np.float64)
        lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
        found[start : start + PAIRS_AT_ONCE] = (one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    return found


def _searched(
    left: Vectors, right: Vectors, k: int, both: bool, settings: SearchSettings, on_progress: OnProgress, stage: str
) -> tuple[Neighbours, Neighbours]:
    from isogloss.search.blockwise import GROUP, ExactSearch
    from isogloss.search.resume import SearchState
    from isogloss.search.sides import prepare_sides
    from isogloss.search.small import small_search

    refuse_misfits(left, right, k, settings)
    if not len(left) or not len(right):
        return no_neighbours(len(left)), no_neighbours(len(right))
    if settings.replace(device="auto") == SearchSettings() and (found := small_search(left, right, k, both)) is not None:
        on_progress(Step(stage, len(left), len(left), "sentences"))
        return found
    plan = resources_for(left, right, settings)
    kept = SearchState(settings.folder, left, right, (k, both, settings.normalize, plan.rows))
    room = plan.memory // 4  # for the copies of each side, for blocks, and for lists
    with (
        torch_configured(plan),
        prepare_sides(left, right, plan.device, plan.dtype, GROUP, settings.normalize, room) as sides,
    ):
        search = ExactSearch(sides, k, (plan.rows, plan.columns), both, room // plan.threads)
        run_stripes(search, plan.threads, kept, on_progress, stage)
        of_left, left_similarity, of_right, right_similarity = search.found()
    return Neighbours(of_left, left_similarity), Neighbours(of_right, right_similarity)


class Resources(NamedTuple):
    """The device, precision, block sizes, threads and memory of a search."""

    device: str
    dtype: "torch.dtype"
    rows: int
    columns: int
    threads: int
    memory: int


def resources_for(left: Vectors, right: Vectors, settings: SearchSettings) -> Resources:
    """The resources for searching two sides on this machine."""
    import torch

    device = choose_device(settings.device)
    device = device if device == "cuda" else "cpu"  # mps has no double precision
    dtype = _dtype(device, settings.precision, left, right)
    threads = 1 if device == "cuda" else torch.get_num_threads()
    memory = settings.memory or (int(CUDA_SHARE * torch.cuda.mem_get_info()[0]) if device == "cuda" else CPU_MEMORY)
    fits = int((memory / 4 / threads / dtype.itemsize) ** 0.5)
    block = settings.block or max(min(CUDA_BLOCK if device == "cuda" else CPU_BLOCK, fits), SMALLEST_BLOCK)
    rows = min(block, max(-(-len(left) // threads), SMALLEST_BLOCK))
    return Resources(device, dtype, _in_groups(rows), _in_groups(min(block, len(right))), threads, memory)


def _in_groups(rows: int) -> int:
    from isogloss.search.blockwise import GROUP

    return -(-rows // GROUP) * GROUP


def _dtype(device: str, precision: str, left: Vectors, right: Vectors) -> "torch.dtype":
    """The precision of the product: as set; by default float16 on CUDA, and on a CPU whatever is faster."""
    import torch

    if precision != "auto":
        chosen: torch.dtype = getattr(torch, precision)
        return chosen
    if device == "cuda":
        return torch.float16
    if len(left) * len(right) < LARGE:
        return torch.float32
    taken = {}
    for dtype in (torch.float32, torch.bfloat16):
        one = torch.ones(512, left.shape[1], dtype=dtype)
        times = []
        for _ in range(3):
            began = time.perf_counter()
            torch.mm(one, one.T)
            times.append(time.perf_counter() - began)
        taken[dtype] = min(times)
    return min(taken, key=lambda dtype: taken[dtype])


@contextmanager
def torch_configured(plan: Resources) -> Iterator[None]:
    """Configure torch for the duration of a search.

    Workers have one thread each: several blocks at once use the cores better than several threads per block.
    """
    import torch

    threads, reduced = torch.get_num_threads(), torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced
        torch.set_num_threads(threads)


def init_worker() -> None:
    """Initialize a worker thread: one torch thread, and on CUDA its own context, which torch warns about otherwise."""
    import torch

    torch.set_num_threads(1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_device(torch.cuda.current_device())
        torch.zeros(1, device="cuda")


def run_stripes(search: "Search", threads: int, kept: "SearchState", on_progress: OnProgress, stage: str) -> None:
    """Search stripe by stripe, several at once. Only this thread reports progress and saves."""
    done = np.zeros(search.stripes, dtype=np.bool_)
    if (state := kept.load(search.stripes)) is not None:
        done = state[0]
        search.resume(state[1])
    shares = done.astype(np.float64)
    reused = round(search.sentences * float(shares.mean()))
    note = f"{reused:,} reused" if reused else ""
    waiting = (number for number in np.flatnonzero(~done).tolist())

    def work(number: int) -> int:
        def advanced(share: float) -> None:
            shares[number] = share

        return number if search.stripe(number, advanced) else -1

    def report() -> None:
        on_progress(Step(stage, round(search.sentences * float(shares.mean())), search.sentences, "sentences", note))

    report()
    with ThreadPoolExecutor(threads, initializer=init_worker) as pool:
        running = {pool.submit(work, number) for number in islice(waiting, threads)}
        try:
            while running:
                finished, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                for one in finished:
                    done[one.result()] = True
                    running |= {pool.submit(work, number) for number in islice(waiting, 1)}
                kept.save(done, search)
                report()
        finally:  # interrupted, or a stripe failed: the others stop at their next block
            search.stopped.set()
            wait(running)
            done[[one.result() for one in running if not one.exception() and one.result() >= 0]] = True
            kept.save(done, search, now=True)


def refuse_misfits(left: Vectors, right: Vectors, k: int, settings: SearchSettings) -> None:
    """Raise for inputs that cannot be searched."""
    if k < 1:
        raise DataError(f"k = {k}: it must be at least 1", hint="4 is usual")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise DataError(
            f"vectors of shape {left.shape} and {right.shape} cannot be compared",
            hint="give two matrices with one vector per row, made by the same model",
        )
    for vectors in (left, right):
        if vectors.dtype not in (np.float16, np.float32, np.float64):
            raise DataError(f"vectors of {vectors.dtype} cannot be searched", hint="give them as float16 or float32")


def no_neighbours(rows: int) -> Neighbours:
    """The neighbours of rows if the other side is empty."""
    return Neighbours(np.empty((rows, 0), dtype=np.int64), np.empty((rows, 0), dtype=np.float32))

"""The nearest sentences of both sides, by cosine, exactly: one matrix product serves both directions.

`both_ways` and `one_way` decide how to search (device, precision, sizes, threads) and keep finished work (`resuming`);
`blockwise` is the search itself, `ranking` what makes it exact. `approximate` searches where all with all takes too long.
`margin` and `matching` go on from here.
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
    from isogloss.search.resume import Kept

Vectors = NDArray[np.float16] | NDArray[np.float32]

CPU_MEMORY = 2**30  # bytes beyond the vectors, where nobody says otherwise
CUDA_SHARE = 0.25  # the same of a card: a share of what is free there
CPU_BLOCK, CUDA_BLOCK, SMALLEST_BLOCK = 2048, 32768, 128
LARGE = 10**8  # products; below, it does not matter how they are computed
LOOK_SECONDS = 0.2
PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """For every row of one side its nearest rows of the other: n × k, the nearest first, of equals the lower number first."""

    ids: IntArray
    similarity: FloatArray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @property
    def k(self) -> int:
        """How many each row has."""
        return int(self.ids.shape[1])

    def first(self, k: int) -> "Neighbours":
        """The nearest k of them."""
        return Neighbours(self.ids[:, :k], self.similarity[:, :k])

    @property
    def mean(self) -> FloatArray:
        """The mean cosine of each row to its neighbours; 0 where it has none."""
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
    """The k nearest right rows of every left row, and the k nearest left rows of every right row; fewer where there are fewer.

    Vectors may be float16 or float32, in memory or mapped. Their cosines are exact: those of double precision, rounded.
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
    """The k nearest candidates of every query."""
    return _searched(queries, candidates, k, False, settings or SearchSettings(), on_progress, stage)[0]


def nearest(queries: Vectors, candidates: Vectors) -> IntArray:
    """The row of every query's nearest candidate by cosine; the first of equals."""
    found = neighbours(queries, candidates, 1)
    ids: IntArray = found.ids[:, 0] if found.k else np.empty(0, dtype=np.int64)
    return ids


def pair_cosines(left: Vectors, right: Vectors, rows: IntArray, columns: IntArray) -> FloatArray:
    """The cosine of left row rows[i] with right row columns[i], as exact as those of neighbours."""
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
    from isogloss.search.blockwise import GROUP, AllWithAll
    from isogloss.search.resume import Kept
    from isogloss.search.sides import prepared
    from isogloss.search.small import small_search

    refuse_misfits(left, right, k, settings)
    if not len(left) or not len(right):
        return nobody(len(left)), nobody(len(right))
    if settings.replace(device="auto") == SearchSettings() and (found := small_search(left, right, k, both)) is not None:
        on_progress(Step(stage, len(left), len(left), "sentences"))
        return found
    plan = planned(left, right, settings)
    kept = Kept(settings.folder, left, right, (k, both, settings.normalize, plan.rows))
    room = plan.memory // 4  # of the copies of each side, of all blocks, of all lists
    with (
        torch_as_planned(plan),
        prepared(left, right, plan.device, plan.dtype, GROUP, settings.normalize, room) as sides,
    ):
        search = AllWithAll(sides, k, (plan.rows, plan.columns), both, room // plan.threads)
        run_stripes(search, plan.threads, kept, on_progress, stage)
        of_left, left_similarity, of_right, right_similarity = search.found()
    return Neighbours(of_left, left_similarity), Neighbours(of_right, right_similarity)


class SearchPlan(NamedTuple):
    """How a search is done on this machine."""

    device: str
    dtype: "torch.dtype"
    rows: int
    columns: int
    threads: int
    memory: int


def planned(left: Vectors, right: Vectors, settings: SearchSettings) -> SearchPlan:
    """Device, precision, blocks and threads for two sides."""
    import torch

    device = choose_device(settings.device)
    device = device if device == "cuda" else "cpu"  # mps has no double precision
    dtype = _dtype(device, settings.precision, left, right)
    threads = 1 if device == "cuda" else torch.get_num_threads()
    memory = settings.memory or (int(CUDA_SHARE * torch.cuda.mem_get_info()[0]) if device == "cuda" else CPU_MEMORY)
    fits = int((memory / 4 / threads / dtype.itemsize) ** 0.5)
    block = settings.block or max(min(CUDA_BLOCK if device == "cuda" else CPU_BLOCK, fits), SMALLEST_BLOCK)
    rows = min(block, max(-(-len(left) // threads), SMALLEST_BLOCK))
    return SearchPlan(device, dtype, _in_groups(rows), _in_groups(min(block, len(right))), threads, memory)


def _in_groups(rows: int) -> int:
    from isogloss.search.blockwise import GROUP

    return -(-rows // GROUP) * GROUP


def _dtype(device: str, precision: str, left: Vectors, right: Vectors) -> "torch.dtype":
    """The precision of the product: what is asked for, half on CUDA, and on a CPU whatever it is faster at."""
    import torch

    if precision != "auto":
        asked: torch.dtype = getattr(torch, precision)
        return asked
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
def torch_as_planned(plan: SearchPlan) -> Iterator[None]:
    """What torch is told for the length of a search.

    Workers have one thread each: several blocks at once keep the cores busier than several threads in one block.
    """
    import torch

    threads, reduced = torch.get_num_threads(), torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced
        torch.set_num_threads(threads)


def begin_worker() -> None:
    """What a thread of a search does first: one thread in each, and on CUDA a context of its own, which torch warns about."""
    import torch

    torch.set_num_threads(1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_device(torch.cuda.current_device())
        torch.zeros(1, device="cuda")


def run_stripes(search: "Search", threads: int, kept: "Kept", on_progress: OnProgress, stage: str) -> None:
    """Search stripe by stripe, several at once. Progress and saving are this thread's alone."""
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

    def tell() -> None:
        on_progress(Step(stage, round(search.sentences * float(shares.mean())), search.sentences, "sentences", note))

    tell()
    with ThreadPoolExecutor(threads, initializer=begin_worker) as pool:
        running = {pool.submit(work, number) for number in islice(waiting, threads)}
        try:
            while running:
                finished, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                for one in finished:
                    done[one.result()] = True
                    running |= {pool.submit(work, number) for number in islice(waiting, 1)}
                kept.save(done, search)
                tell()
        finally:  # interrupted, or a stripe that failed: the others stop at their next block
            search.stopped.set()
            wait(running)
            done[[one.result() for one in running if not one.exception() and one.result() >= 0]] = True
            kept.save(done, search, now=True)


def refuse_misfits(left: Vectors, right: Vectors, k: int, settings: SearchSettings) -> None:
    """Say what cannot be searched."""
    if k < 1:
        raise DataError(f"k = {k}: every sentence needs at least one neighbour", hint="4 is usual")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise DataError(
            f"vectors of shape {left.shape} and {right.shape} cannot be compared",
            hint="give two matrices with one vector per row, made by the same model",
        )
    for vectors in (left, right):
        if vectors.dtype not in (np.float16, np.float32, np.float64):
            raise DataError(f"vectors of {vectors.dtype} cannot be searched", hint="give them as float16 or float32")


def nobody(rows: int) -> Neighbours:
    """What rows have whose other side is empty."""
    return Neighbours(np.empty((rows, 0), dtype=np.int64), np.empty((rows, 0), dtype=np.float32))

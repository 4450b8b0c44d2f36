"""Run a search stripe by stripe: device, precision and block sizes, several threads, and state to continue from.

    FOLDER/neighbors-KEY.npz     which stripes are done, and the best neighbors so far; KEY identifies vectors and parameters
    FOLDER/index-KEY.npz          the arrays of an index, if there is one (faiss writes its own, index-KEY.faiss)

A saved state may have neighbors from stripes that are not marked as done; finding them again changes nothing.
"""

import time
import timeit
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from isogloss.checksums import load_arrays, save_arrays
from isogloss.config.mining import SearchSettings
from isogloss.models.loading import choose_device
from isogloss.progress import OnProgress, Step
from isogloss.search.blockwise import ExactSearch, Search
from isogloss.search.neighbors import Neighbors, Vectors
from isogloss.search.sides import GROUP, prepare_sides
from isogloss.storage import ContentHash
from isogloss.types import BoolArray

CPU_MEMORY = 2**30  # default, in bytes beyond the vectors
CUDA_SHARE = 0.25  # default on a GPU: this share of its free memory
CPU_BLOCK, CUDA_BLOCK, SMALLEST_BLOCK = 2048, 32768, 128
LARGE = 10**8  # products; for fewer, precision does not matter for speed
POLL_SECONDS = 0.2
SAVE_SECONDS = 30.0  # how much work a kill -9 may cost
HASHED_AT_ONCE = 65_536
STATE = ("done", "left_ids", "left_similarity", "right_ids", "right_similarity")

Arrays = dict[str, NDArray[Any]]


class Resources(NamedTuple):
    """The device, precision, block sizes, threads and memory of a search."""

    device: str
    dtype: torch.dtype
    rows: int
    columns: int
    threads: int
    memory: int


def search_exactly(
    left: Vectors, right: Vectors, k: int, both: bool, settings: SearchSettings, on_progress: OnProgress, stage: str
) -> tuple[Neighbors, Neighbors]:
    """The blockwise search of both sides, neither of them empty; see `neighbors.both_ways`."""
    on = resources_for(left, right, settings)
    kept = SearchState(settings.folder, left, right, (k, both, settings.normalize, on.rows))
    room = on.memory // 4  # for the copies of each side, for blocks, and for lists
    with torch_configured(), prepare_sides(left, right, on.device, on.dtype, settings.normalize, room) as sides:
        search = ExactSearch(sides, k, (on.rows, on.columns), both, room // on.threads)
        run_stripes(search, on.threads, kept, on_progress, stage)
        return search.found()


def resources_for(left: Vectors, right: Vectors, settings: SearchSettings) -> Resources:
    """The resources for searching two sides on this machine."""
    device = "cuda" if choose_device(settings.device) == "cuda" else "cpu"  # mps has no double precision
    dtype = _dtype(device, settings.precision, left, right)
    threads = 1 if device == "cuda" else torch.get_num_threads()
    memory = settings.memory or (int(CUDA_SHARE * torch.cuda.mem_get_info()[0]) if device == "cuda" else CPU_MEMORY)
    fits = int((memory / 4 / threads / dtype.itemsize) ** 0.5)
    block = settings.block or max(min(CUDA_BLOCK if device == "cuda" else CPU_BLOCK, fits), SMALLEST_BLOCK)
    rows = min(block, max(-(-len(left) // threads), SMALLEST_BLOCK))
    rows, columns = (-(-size // GROUP) * GROUP for size in (rows, min(block, len(right))))
    return Resources(device, dtype, rows, columns, threads, memory)


def _dtype(device: str, precision: str, left: Vectors, right: Vectors) -> torch.dtype:
    """The precision of the product: as set; by default float16 on CUDA, and on a CPU whatever is faster."""
    if precision != "auto":
        chosen: torch.dtype = getattr(torch, precision)
        return chosen
    if device == "cuda":
        return torch.float16
    if len(left) * len(right) < LARGE:
        return torch.float32

    def seconds(dtype: torch.dtype) -> float:
        rows = torch.ones(512, left.shape[1], dtype=dtype)
        return min(timeit.repeat(lambda: torch.mm(rows, rows.T), number=1, repeat=3))

    return min((torch.float32, torch.bfloat16), key=seconds)


@contextmanager
def torch_configured() -> Iterator[None]:
    """Configure torch for the duration of a search.

    Workers have one thread each: several blocks at once use the cores better than several threads per block.
    """
    threads, reduced = torch.get_num_threads(), torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced
        torch.set_num_threads(threads)


def init_worker() -> None:
    """Initialize a worker thread: one torch thread, and on CUDA its own context, which torch warns about otherwise."""
    torch.set_num_threads(1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_device(torch.cuda.current_device())
        torch.zeros(1, device="cuda")


class SearchState:
    """The saved state of one search; without a folder nothing is saved."""

    def __init__(self, folder: Path | str | None, left: Vectors, right: Vectors, parameters: tuple[object, ...]) -> None:
        self.key = _name(left, right, parameters) if folder is not None else ""
        self.path = Path(folder) / f"neighbors-{self.key}.npz" if folder is not None else None
        self._saved = time.monotonic()

    def load(self, search: Search) -> BoolArray:
        """Give a search what was found before, and return which of its stripes are done."""
        kept = load_arrays(self.path) if self.path is not None else None
        if kept is None or set(kept) != set(STATE) or len(kept["done"]) != search.stripes:  # nothing saved, or damaged
            return np.zeros(search.stripes, dtype=np.bool_)
        done, *found = (kept[name] for name in STATE)
        search.resume((Neighbors(*found[:2]), Neighbors(*found[2:])))
        return done

    def save(self, done: BoolArray, search: Search, now: bool = False) -> None:
        """Save the state, if it is time to."""
        if self.path is None or not (now or time.monotonic() - self._saved > SAVE_SECONDS):
            return
        found = [array for side in search.found() for array in (side.ids, side.similarity)]
        arrays: Arrays = dict(zip(STATE, (done, *found), strict=True))
        save_arrays(self.path, **arrays)
        self._saved = time.monotonic()

    def index_path(self, ending: str) -> Path | None:
        """Where the index of this search is saved."""
        return self.path.with_name(f"index-{self.key}{ending}") if self.path is not None else None

    def index(self, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of an index: loaded if they were saved, otherwise made and saved."""
        path = self.index_path(".npz")
        arrays = load_arrays(path) if path is not None else None
        if arrays is None:
            arrays = make()
            if path is not None:
                save_arrays(path, **arrays)
        return arrays


def _name(left: Vectors, right: Vectors, parameters: tuple[object, ...]) -> str:
    digest = ContentHash()
    digest.add(repr(parameters))
    for vectors in (left, right):
        digest.add(repr((vectors.shape, str(vectors.dtype))))
        for start in range(0, len(vectors), HASHED_AT_ONCE):
            digest.add(np.ascontiguousarray(vectors[start : start + HASHED_AT_ONCE]).view(np.uint8).data)
    return digest.name()[:16]


def run_stripes(search: Search, threads: int, kept: SearchState | None, on_progress: OnProgress, stage: str) -> None:
    """Search stripe by stripe, several in parallel. Only this thread reports progress and saves."""
    done = kept.load(search) if kept else np.zeros(search.stripes, dtype=np.bool_)
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
                finished, running = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                for stripe in finished:
                    done[stripe.result()] = True
                    running |= {pool.submit(work, number) for number in islice(waiting, 1)}
                if kept:
                    kept.save(done, search)
                report()
        finally:  # interrupted, or a stripe failed: the others stop at their next block
            search.stopped.set()
            wait(running)
            done[[stripe.result() for stripe in running if not stripe.exception() and stripe.result() >= 0]] = True
            if kept:
                kept.save(done, search, now=True)

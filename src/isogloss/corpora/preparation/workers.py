"""Worker processes that score blocks, as plain child processes that run this file.

`multiprocessing` would import the caller's script again, which runs it twice if it has no main guard.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa

from isogloss.errors import IsoglossError

Work = Callable[[Any, Any, Any], Any]
# Every block allocates and frees megabytes. glibc keeps that memory in the process with these settings, which saves a sixth of
# the time. Arrow uses the same allocator: its own pool would grow for hundreds of blocks.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**29),
    "MALLOC_TOP_PAD_": str(2**24),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
SINGLE_THREADED = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def cpu_count() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of worker processes; with a count of 1 the work is done in this process.

    Results come in order, and at most two blocks per process are under way, so memory does not grow with the input.
    `shared` is sent to each process once, and each calls `first` when it starts.
    """

    def __init__(self, count: int, shared: object = None, first: Callable[[], None] | None = None) -> None:
        self._shared, self._first = shared, first
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="isogloss-workers") if count > 1 else None
        self._count = count
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Start the processes."""
        for _ in range(self._count if self._threads else 0):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],  # -P: the current folder may have a random.py
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
            )
            self._processes.append(process)
            _send(process.stdin, (self._first, self._shared))
            self._idle.put(process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the processes; kill them after an error."""
        for process in self._processes:
            with suppress(BrokenPipeError), process:  # closes its pipes and waits for it
                if kind is not None:
                    process.kill()
        if self._threads:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Work, blocks: Iterable[pa.Table], context: Any) -> Iterator[Any]:  # noqa: ANN401
        """`work(block, context, shared)` for every block, in order; `work` must be importable."""
        if not self._threads:
            for block in blocks:
                yield work(block, context, self._shared)
            return
        waiting: deque[Future[Any]] = deque()
        for block in blocks:
            waiting.append(self._threads.submit(self._call, work, block, context))
            if len(waiting) >= 2 * self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _call(self, work: Work, block: pa.Table, context: Any) -> Any:  # noqa: ANN401 - whatever the work gives
        process = self._idle.get()
        try:
            _send(process.stdin, (work, context, _packed(block)))
            assert process.stdout is not None
            good, value = pickle.load(process.stdout)
        except (BrokenPipeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise IsoglossError(
                f"a worker process ended early (exit code {process.wait()})",
                hint="is the memory full? use fewer workers: --workers 1, in a recipe threads = 1",
            ) from error
        finally:
            self._idle.put(process)
        if not good:
            raise value
        return value


def _environment() -> dict[str, str]:
    """The environment of this process, single-threaded, with isogloss on the path."""
    home = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH", ""), home) if part)
    return {**os.environ, **SINGLE_THREADED, **KEEP_MEMORY, "PYTHONPATH": path}


def _packed(block: pa.Table) -> pa.Buffer:
    """A block in Arrow's IPC format: pickle would send the whole table that a slice was cut from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_table(block)
    return sink.getvalue()


def _send(stream: IO[bytes] | None, message: object) -> None:
    assert stream is not None
    pickle.dump(message, stream, protocol=5)
    stream.flush()


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the pipe closes."""
    pa.set_cpu_count(1)
    first, shared = pickle.load(requests)
    if first:
        first()
    while True:
        try:
            work, context, block = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: tuple[bool, Any] = (True, work(pa.ipc.open_stream(block).read_all(), context, shared))
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            answer = (False, error)
        _send(answers, answer)


if __name__ == "__main__":
    # Only answers may go to the pipe.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _serve(sys.stdin.buffer, replies)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(1)

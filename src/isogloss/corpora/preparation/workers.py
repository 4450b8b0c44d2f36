"""Worker processes that score blocks, as plain child processes that run this file.

`multiprocessing` would import the caller's script again, which runs it twice if it has no main guard.
"""

import collections
import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
    """

    def __init__(self, count: int, shared: object = None) -> None:
        self._shared = shared  # sent to each process once
        self._count = count if count > 1 else 0
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        """Processes start with the first work."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the processes; kill them after an error."""
        for process in self._started:
            if kind is not None:
                process.kill()
            if process.stdin:
                with contextlib.suppress(BrokenPipeError):  # it has ended already
                    process.stdin.close()
        for process in self._started:
            process.wait()
            if process.stdout:
                process.stdout.close()
        if self._threads:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Work, blocks: Iterable[pa.Table], context: Any) -> Iterator[Any]:  # noqa: ANN401
        """`work(block, context, shared)` for every block, in order; `work` must be importable."""
        if not self._count:
            for block in blocks:
                yield work(block, context, self._shared)
            return
        self.start()
        assert self._threads is not None
        waiting: collections.deque[Future[Any]] = collections.deque()
        for block in blocks:
            waiting.append(self._threads.submit(self._call, (work, block, context)))
            if len(waiting) >= 2 * self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def start(self, first: Callable[[], None] | None = None) -> None:
        """Start the processes if they are not running; each calls `first`."""
        if self._threads is None and self._count:
            shared = pickle.dumps(self._shared, protocol=5)
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="isogloss-workers")
            for _ in range(self._count):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __name__],  # -P: the current folder may have a random.py
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=_environment(),
                )
                self._started.append(process)
                assert process.stdin is not None
                _send(process.stdin, pickle.dumps(first, protocol=5))
                _send(process.stdin, shared)
                self._idle.put(process)

    def _call(self, task: tuple[Work, pa.Table, Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        process = self._idle.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            work, block, context = task
            _send(process.stdin, pickle.dumps((work, context), protocol=5))
            _send(process.stdin, _packed(block))
            answer = _receive(process.stdout)
        except (BrokenPipeError, EOFError, ValueError) as error:
            raise IsoglossError(
                f"a worker process ended early (exit code {process.wait()})",
                hint="is the memory full? use fewer workers: --workers 1, in a recipe threads = 1",
            ) from error
        finally:
            self._idle.put(process)
        good, value = pickle.loads(answer)
        if not good:
            raise value
        return value


def _environment() -> dict[str, str]:
    """The environment of this process, single-threaded, with isogloss on the path."""
    home = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH", ""), home) if part)
    return {**os.environ, **SINGLE_THREADED, **KEEP_MEMORY, "PYTHONPATH": path}


def _packed(block: pa.Table) -> memoryview:
    """A block in Arrow's IPC format: pickle would send the whole table that a slice was cut from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_table(block)
    return memoryview(sink.getvalue())


def _send(stream: IO[bytes], data: bytes | memoryview) -> None:
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the pipe closes."""
    pa.set_cpu_count(1)
    if first := pickle.loads(_receive(requests)):
        first()
    shared = pickle.loads(_receive(requests))
    while True:
        try:
            work, context = pickle.loads(_receive(requests))
            block = pa.ipc.open_stream(_receive(requests)).read_all()
        except EOFError:
            return
        try:
            answer: tuple[bool, Any] = (True, work(block, context, shared))
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            answer = (False, error)
        _send(answers, pickle.dumps(answer, protocol=5))


if __name__ == "__main__":
    # Only answers may go to the pipe.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _serve(sys.stdin.buffer, replies)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(1)

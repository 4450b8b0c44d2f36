"""Other processes that score blocks: plain child processes that are sent a block and send it back scored.

Not `multiprocessing`: its workers import the caller's script again, and a script without a main guard then runs twice.
These run this file and nothing else.
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
# Arrays of some megabytes come and go with every block: kept in the process, they need not be asked of the system and
# cleared by it again each time (a sixth of the time). Only glibc listens to this. Arrow shares that memory: what it would
# keep for itself, and numpy could not use, would grow for hundreds of blocks.
KEEPING_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**29),
    "MALLOC_TOP_PAD_": str(2**24),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
SINGLE_THREADED = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def cpu_count() -> int:
    """How many processors this process may use, which in a container is fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A number of such processes; none at all, and the work is done here.

    Results come back in order, and no more than two blocks a process are under way, so memory does not grow with a file.
    """

    def __init__(self, count: int, shared: object = None) -> None:
        self._shared = shared  # what every piece of work needs: sent to a process once
        self._count = count if count > 1 else 0
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        """Nothing is started before there is work."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the processes; at once if something went wrong."""
        for process in self._started:
            if kind is not None:
                process.kill()
            if process.stdin:
                with contextlib.suppress(BrokenPipeError):  # it is gone already
                    process.stdin.close()
        for process in self._started:
            process.wait()
            if process.stdout:
                process.stdout.close()
        if self._threads:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Work, blocks: Iterable[pa.Table], context: Any) -> Iterator[Any]:  # noqa: ANN401
        """`work(block, context, shared)` for every block, in order. `work` must be a function that can be imported."""
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
        """Start the processes, if they are not running yet; they may do something first, while others are busy."""
        if self._threads is None and self._count:
            shared = pickle.dumps(self._shared, protocol=5)
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="isogloss-workers")
            for _ in range(self._count):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __name__],  # -P: the user's folder may have a random.py of its own
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
                f"a working process ended early (exit code {process.wait()})",
                hint="is the memory full? use fewer: --workers 1, in a recipe threads = 1",
            ) from error
        finally:
            self._idle.put(process)
        good, value = pickle.loads(answer)
        if not good:
            raise value
        return value


def _environment() -> dict[str, str]:
    """The same environment, single-threaded, and able to import isogloss wherever this process found it."""
    home = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH", ""), home) if part)
    return {**os.environ, **SINGLE_THREADED, **KEEPING_MEMORY, "PYTHONPATH": path}


def _packed(block: pa.Table) -> memoryview:
    """A block as Arrow writes it: its own rows alone. Pickled, a slice takes the whole table along that it was cut from."""
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
    """Answer requests until there are no more."""
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
        except Exception as error:  # noqa: BLE001 - it is raised again where the result is awaited
            answer = (False, error)
        _send(answers, pickle.dumps(answer, protocol=5))


if __name__ == "__main__":
    # Nobody else may write to the pipe that carries the answers.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _serve(sys.stdin.buffer, replies)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(1)

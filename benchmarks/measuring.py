"""Run a command and say how long it took and how much memory it and its children held together at the most."""

import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command cost."""

    seconds: float
    peak_mib: float


def measure(command: list[str], log: Path, **options: object) -> Measured:
    """Run `command` with its output in `log`; a failure shows the end of it."""
    began = time.perf_counter()
    with log.open("wb") as handle:
        process = subprocess.Popen(command, stdout=handle, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
        peak = _Peak(process.pid)
        peak.start()
        code = process.wait()
    seconds = time.perf_counter() - began
    peak.stop()
    if code:
        raise SystemExit(f"{' '.join(command)}\nended with {code}:\n{log.read_text(errors='replace')[-3000:]}")
    return Measured(round(seconds, 2), round(peak.kib / 1024, 1))


class _Peak(threading.Thread):
    """Adds up the resident memory of a process and its descendants, several times a second, and keeps the largest sum."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.kib, self._done = root, 0, threading.Event()

    def run(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            self.kib = max(self.kib, _held(self.root))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _held(root: int) -> int:
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        try:
            status = Path(f"/proc/{process}/status").read_text()
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:  # it ended meanwhile
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssAnon", "RssShmem")))
    return total

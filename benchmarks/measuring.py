"""Run a command and say how long it took and how much memory it and its children held together at the most."""

import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """What was held at one moment, in KiB: memory of its own, and with files that are mapped."""

    moment: float  # of time.monotonic(), which all processes of a machine share
    own: int
    resident: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command cost. `peak_mib` is memory of its own; pages of mapped files, which the system may drop, are beside it."""

    seconds: float
    peak_mib: float
    peak_resident_mib: float = 0.0
    samples: tuple[Sample, ...] = ()


def measure(command: list[str], log: Path, **options: object) -> Measured:
    """Run `command` with its output in `log`; a failure shows the end of it."""
    began = time.perf_counter()
    with log.open("wb") as handle:
        process = subprocess.Popen(command, stdout=handle, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
        watch = _Watch(process.pid)
        watch.start()
        try:
            code = process.wait()
        finally:
            process.kill()  # where waiting was broken off
    seconds = time.perf_counter() - began
    watch.stop()
    if code:
        raise SystemExit(f"{' '.join(command)}\nended with {code}:\n{log.read_text(errors='replace')[-3000:]}")
    return Measured(round(seconds, 2), *peaks(watch.samples), tuple(watch.samples))


def peaks(samples: list[Sample]) -> tuple[float, float]:
    """The most that was held, in MiB: of its own, and with mapped files."""
    own, resident = (max((getattr(one, kind) for one in samples), default=0) for kind in ("own", "resident"))
    return round(own / 1024, 1), round(resident / 1024, 1)


class _Watch(threading.Thread):
    """Adds up the memory of a process and its descendants, several times a second."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.samples, self._done = root, [], threading.Event()  # type: int, list[Sample], threading.Event

    def run(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            self.samples.append(_held(self.root))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _held(root: int) -> Sample:
    own, resident, waiting = 0, 0, [root]
    while waiting:
        process = waiting.pop()
        try:
            status = Path(f"/proc/{process}/status").read_text()
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:  # it ended meanwhile
            continue
        held = {line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if line.startswith(("Rss", "VmRSS"))}
        own += held.get("RssAnon", 0) + held.get("RssShmem", 0)
        resident += held.get("VmRSS", 0)
    return Sample(time.monotonic(), own, resident)

"""What a run leaves behind so that it can be read, compared and repeated: `run.json` and `metrics.jsonl`."""

import json
import logging
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from isogloss.config import Recipe, as_dict
from isogloss.progress import OnProgress, Step
from isogloss.shown import masked_values
from isogloss.storage import append_line, write_json, write_text

PACKAGES = ("isogloss", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "pyarrow")


class Record:
    """Writes `run.json` as the run goes, so that an interrupted run is told from a finished one."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder = folder
        self.data: dict[str, Any] = {
            "status": "running",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "recipe": as_dict(recipe),
            "versions": versions(),
            "hardware": hardware(),
            "hashes": {},
            "seconds": {},
            "warnings": [],
        }
        self.write()

    def write(self) -> None:
        """Put the record on disk as it is now."""
        write_json(self.folder / "run.json", masked_values(self.data))

    def note(self, **values: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
        """Add facts, and write."""
        for name, value in values.items():
            held = self.data.get(name)
            self.data[name] = held | value if isinstance(held, dict) and isinstance(value, dict) else value
        self.write()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Measure how long a stage takes, and write down what is warned of in it."""
        began, listener = time.monotonic(), _Listener(self)
        logging.getLogger("isogloss").addHandler(listener)
        try:
            yield
        finally:
            logging.getLogger("isogloss").removeHandler(listener)
        self.data["seconds"][stage] = round(time.monotonic() - began, 2)

    def finish(self) -> None:
        """Say that everything is there."""
        self.note(status="finished", finished=datetime.now(UTC).isoformat(timespec="seconds"))


class _Listener(logging.Handler):
    """Puts every warning into a record, once and at once: the screen that showed it is gone when the question comes up."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.WARNING)
        self.record = record

    def emit(self, record: logging.LogRecord) -> None:
        """Take one warning."""
        told, text = self.record.data["warnings"], record.getMessage()
        if text not in told:
            self.record.note(warnings=[*told, text])


class Metrics:
    """Passes progress on and writes every value it carries to `metrics.jsonl`, each step once.

    A run that was killed has logged steps beyond its last checkpoint; they are taken again, so their lines are dropped
    when the first of them comes back.
    """

    def __init__(self, path: Path, on_progress: OnProgress) -> None:
        self.path, self.on_progress = path, on_progress
        self.last_step = max((line.get("step", -1) for line in self._lines()), default=-1)

    def __call__(self, step: Step) -> None:
        """Take one step of progress."""
        if step.values:
            line = {"stage": step.stage, **{name: _rounded(value) for name, value in step.values.items()}}
            number = line.get("step", -1)
            if isinstance(number, int) and 0 <= number <= self.last_step:
                self._forget_from(number)
            self.last_step = int(number)
            append_line(self.path, json.dumps(line))
        self.on_progress(step)

    def _forget_from(self, number: int) -> None:
        kept = [line for line in self._lines() if line.get("step", -1) < number]
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))

    def _lines(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        if not self.path.exists():
            return lines
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:  # a line that a killed process did not finish
                continue
        return lines


def _rounded(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else float(f"{value:.6g}")


def versions() -> dict[str, str]:
    """Python and the packages a result depends on."""
    return {"python": platform.python_version(), **{name: _version_of(name) for name in PACKAGES}}


@cache
def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def hardware() -> dict[str, Any]:
    """The machine, in a few words."""
    import torch

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": memory_gib(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor_name() -> str:
    """The processor's own name where the system tells it."""
    if sys.platform == "darwin":
        answer = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return answer.stdout.strip() or platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def memory_gib() -> float | None:
    """Memory of the machine, where the system tells it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def peak_memory_gib() -> float | None:
    """The most memory this process has held so far."""
    try:
        import resource
    except ImportError:
        return None
    scale = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**30, 2)

"""What a run leaves behind so that it can be read, compared and repeated: `run.json` and `metrics.jsonl`."""

import json
import logging
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.errors import IsoglossError
from isogloss.progress import OnProgress, Step
from isogloss.shown import masked_values
from isogloss.storage import append_line, canonical_json, content_hash, read_json, write_json, write_text

logger = logging.getLogger(__name__)

RECORD = "run.json"
PACKAGES = ("isogloss", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "pyarrow")


class Record:
    """Writes `run.json` as the run goes, so that an interrupted run can be told apart from a finished one.

    `settings` is what was asked for. Seconds of an interrupted run of the same settings in the same folder are added to.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        key = content_hash(canonical_json(settings))[:16]
        self.data: dict[str, Any] = {
            "status": "running",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **settings,
            "settings_hash": key,
            "versions": versions(),
            "hardware": hardware(),
            "hashes": {},
            "seconds": _seconds_so_far(folder / RECORD, key),
            "warnings": [],
        }
        self.write()

    def write(self) -> None:
        """Put the record on disk as it is now."""
        write_json(self.folder / RECORD, masked_values(self.data))

    def note(self, **values: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
        """Add facts, and write."""
        for name, value in values.items():
            held = self.data.get(name)
            self.data[name] = held | value if isinstance(held, dict) and isinstance(value, dict) else value
        self.write()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add to the seconds of a stage, also if it fails, and write down what is warned of in it."""
        began, listener = time.monotonic(), _Listener(self)
        logging.getLogger("isogloss").addHandler(listener)
        try:
            yield
        except BaseException:
            self._took(stage, began)
            with suppress(OSError, IsoglossError):  # what went wrong first is what is said
                self.write()
            raise
        finally:
            logging.getLogger("isogloss").removeHandler(listener)
        self._took(stage, began)
        self.write()

    def _took(self, stage: str, began: float) -> None:
        seconds = self.data["seconds"]
        seconds[stage] = round(seconds.get(stage, 0.0) + time.monotonic() - began, 2)

    def finish(self) -> None:
        """Say that everything is there."""
        self.note(status="finished", finished=datetime.now(UTC).isoformat(timespec="seconds"))


def _seconds_so_far(path: Path, key: str) -> dict[str, float]:
    """Of an interrupted run of the same settings; none if there is no such record, or it is damaged."""
    try:
        before = read_json(path)
        if before["settings_hash"] == key and before["status"] != "finished":
            return {str(stage): float(seconds) for stage, seconds in before["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


@contextmanager
def ending_noted(path: Path) -> Iterator[None]:
    """Note in a run's record how it ended if it did not finish: stopped by a signal, or failed."""
    try:
        yield
    except BaseException as error:
        with suppress(IsoglossError, OSError, ValueError):  # the disk may be full: the first error is the one to report
            record = read_json(path)
            if isinstance(record, dict) and record.get("status") == "running":
                write_json(path, record | {"status": "failed" if isinstance(error, Exception) else "stopped"})
        raise


class _Listener(logging.Handler):
    """Puts every warning into a record, once and at once: the screen that showed it is gone when the question comes up."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.WARNING)
        self.record = record

    def emit(self, record: logging.LogRecord) -> None:
        """Take one warning."""
        warnings, text = self.record.data["warnings"], record.getMessage()
        if text not in warnings:
            self.record.note(warnings=[*warnings, text])


class Metrics:
    """Passes progress on and writes every value it carries to `metrics.jsonl`, each step of each stage once.

    A run that was killed has logged steps beyond its last checkpoint; they are taken again, so their lines are dropped
    when the first of them comes back.
    """

    def __init__(self, path: Path, on_progress: OnProgress) -> None:
        self.path, self.on_progress = path, on_progress
        self._drop_strange_lines()
        self.last_step: dict[str, int] = {}
        for line in self._lines():
            self.last_step[line.get("stage", "")] = max(line.get("step", -1), self.last_step.get(line.get("stage", ""), -1))

    def __call__(self, step: Step) -> None:
        """Take one step of progress."""
        if step.values:
            line = {"stage": step.stage, **{name: _rounded(value) for name, value in step.values.items()}}
            number = line.get("step", -1)
            if isinstance(number, int) and 0 <= number <= self.last_step.get(step.stage, -1):
                self._forget_from(step.stage, number)
            self.last_step[step.stage] = int(number)
            append_line(self.path, json.dumps(line))
        self.on_progress(step)

    def _forget_from(self, stage: str, number: int) -> None:
        kept = [line for line in self._lines() if line.get("stage") != stage or line.get("step", -1) < number]
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))

    def _lines(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        if not self.path.exists():
            return lines
        texts = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        found = [_values_of(text) for text in texts]
        return [line for line in found if line is not None]

    def _drop_strange_lines(self) -> None:
        """Leave lines out that are none of ours: one that a killed process did not finish, or anything else, which is said."""
        if not self.path.exists():
            return
        texts = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        strange = [place for place, text in enumerate(texts) if text and _values_of(text) is None]
        if not strange:
            return
        if strange != [len(texts) - 1]:
            logger.warning("%s: %s that cannot be read left out", self.path, amount(len(strange), "line"))
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in self._lines()))


def _values_of(text: str) -> dict[str, Any] | None:
    """A line of metrics; None if it is not one."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and type(line.get("step", -1)) is int else None


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

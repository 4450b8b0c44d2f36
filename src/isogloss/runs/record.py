"""The record of a run: `run.json` with settings, versions, times and status, and `metrics.jsonl` with losses and scores."""

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
    """Writes `run.json` during the run, so that an interrupted run is not taken for a finished one.

    The seconds of an interrupted run with the same settings in the same folder are counted, too.
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
        """Write the file."""
        write_json(self.folder / RECORD, masked_values(self.data))

    def note(self, **values: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
        """Add values and write; dictionaries are merged."""
        for name, value in values.items():
            held = self.data.get(name)
            self.data[name] = held | value if isinstance(held, dict) and isinstance(value, dict) else value
        self.write()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add to the seconds of a part, even if it fails, and record the warnings that are logged in it."""
        start, warnings = time.monotonic(), _Warnings(self)
        logging.getLogger("isogloss").addHandler(warnings)
        try:
            yield
        except BaseException:
            with suppress(OSError, IsoglossError):  # the first error is the one to report
                self._add_seconds(part, time.monotonic() - start)
            raise
        finally:
            logging.getLogger("isogloss").removeHandler(warnings)
        self._add_seconds(part, time.monotonic() - start)

    def _add_seconds(self, part: str, seconds: float) -> None:
        self.note(seconds={part: round(self.data["seconds"].get(part, 0.0) + seconds, 2)})

    def finish(self) -> None:
        """Mark the run as finished."""
        self.note(status="finished", finished=datetime.now(UTC).isoformat(timespec="seconds"))


def _seconds_so_far(path: Path, key: str) -> dict[str, float]:
    """Seconds of an interrupted run with the same settings; none if there is no such record, or it is damaged."""
    try:
        before = read_json(path)
        if before["settings_hash"] == key and before["status"] != "finished":
            return {str(stage): float(seconds) for stage, seconds in before["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


@contextmanager
def ending_noted(path: Path) -> Iterator[None]:
    """Set the status in a record if the run does not finish: "stopped" by a signal, or "failed"."""
    try:
        yield
    except BaseException as error:
        with suppress(IsoglossError, OSError, ValueError):  # the disk may be full: the first error is the one to report
            record = read_json(path)
            if isinstance(record, dict) and record.get("status") == "running":
                write_json(path, record | {"status": "failed" if isinstance(error, Exception) else "stopped"})
        raise


class _Warnings(logging.Handler):
    """Writes each warning to the record as soon as it is logged, once."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.WARNING)
        self.record = record

    def emit(self, record: logging.LogRecord) -> None:
        warnings, text = self.record.data["warnings"], record.getMessage()
        if text not in warnings:
            self.record.note(warnings=[*warnings, text])


class MetricsLog:
    """A progress callback that appends the values of a step to `metrics.jsonl` and passes the step on.

    A killed run has logged steps after its last checkpoint. They are repeated: at the first of them, their lines are removed.
    """

    def __init__(self, path: Path, on_progress: OnProgress) -> None:
        self.path, self.on_progress = path, on_progress
        texts = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
        parsed = [(text, _parsed(text)) for text in texts if text]
        self.lines = [line for _, line in parsed if line is not None]
        unreadable = [text for text, line in parsed if line is None]
        if unreadable and unreadable != texts[-1:]:  # a killed process leaves half a line at the end
            logger.warning("%s: skipped %s that cannot be read", path, amount(len(unreadable), "line"))
        if unreadable:
            self._rewrite(self.lines)
        self.last_step: dict[str, int] = {}
        for line in self.lines:
            stage = line.get("stage", "")
            self.last_step[stage] = max(line.get("step", -1), self.last_step.get(stage, -1))

    def __call__(self, step: Step) -> None:
        """Log the values of a step."""
        if step.values:
            line = {"stage": step.stage, **{name: _rounded(value) for name, value in step.values.items()}}
            number = int(line.get("step", -1))
            if 0 <= number <= self.last_step.get(step.stage, -1):
                self._rewrite([one for one in self.lines if one.get("stage") != step.stage or one.get("step", -1) < number])
            self.last_step[step.stage] = number
            self.lines.append(line)
            append_line(self.path, json.dumps(line))
        self.on_progress(step)

    def _rewrite(self, lines: list[dict[str, Any]]) -> None:
        self.lines = lines
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))


def _parsed(text: str) -> dict[str, Any] | None:
    """A line of metrics; None if the text is not one."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and type(line.get("step", -1)) is int else None


def _rounded(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else float(f"{value:.6g}")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def hardware() -> dict[str, Any]:
    """Facts about the machine."""
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
    """The name of the processor, if the system has it."""
    if sys.platform == "darwin":
        answer = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return answer.stdout.strip() or platform.processor()
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def memory_gib() -> float | None:
    """Memory of the machine, if the system reports it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def peak_memory_gib() -> float | None:
    """The peak memory of this process so far."""
    try:
        import resource
    except ImportError:
        return None
    scale = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**30, 2)

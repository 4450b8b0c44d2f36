"""The folder of a run: one run at a time, no foreign files, and no finished model replaced by accident.

Every command that trains enters its folder here. The same settings as before continue from the stored work; a finished model of
other settings is replaced only with `--replace`.
"""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from isogloss.config.settings import dotted
from isogloss.errors import IsoglossError
from isogloss.models.saving import refuse_other_content
from isogloss.runs.record import RECORD, ending_noted
from isogloss.shown import masked_values
from isogloss.storage import (
    LOCK,
    TEMPORARY_MARK,
    WORK,
    explaining_disk,
    folder_lock,
    read_json,
    refuse_folder,
    remove,
    remove_stale_files,
)
from isogloss.training.checkpoints import changed_settings
from isogloss.training.data.work_files import only_used_kept

logger = logging.getLogger(__name__)

MODEL, RESULTS, PAIRS, METRICS, REPLAY = "model", "results.json", "pairs", "metrics.jsonl", "replay"
KINDS = {  # of stored work, by name
    "file": ("*.npy", "*.npz", "*.pt", "*.json", "*.jsonl", "*.parquet", "*.i32", "*.i64", "keys", "done"),
    "folder": ("data-*", "checkpoints-*", "activations-*", "*.unfinished", "rows", "tokens", "candidate"),
}
OWN = (LOCK, WORK, "cache", MODEL, RESULTS, PAIRS, REPLAY, RECORD, "metrics*.jsonl", "trackers", f".*{TEMPORARY_MARK}*")
IGNORED = (  # settings that change no weight
    *("name", "output.*", "device", "threads", "teacher.batch_size", "training.engine"),
    *("training.checkpoint_seconds", "training.trackers"),
    *("evaluation.*", "add.gate", "add.gate_on"),
)


@contextmanager
def run_folder(
    folder: Path,
    recipe: Mapping[str, Any],
    fresh: bool = False,
    replace: bool = False,
    record: Path = Path(RECORD),
) -> Iterator[None]:
    """Be the only process that works in `folder`; `record` is the path of its record within it.

    `fresh` deletes unfinished work first; `replace` allows a finished model of other settings to be replaced.
    """
    refuse_foreign(folder)
    with (
        folder_lock(folder, "another run is using this folder", "wait for it, or name another output folder"),
        ending_noted(folder / record),
    ):
        refuse_other_content(folder / MODEL)
        for name in (RESULTS, RECORD, METRICS):
            refuse_folder(folder / name)
        if not replace:
            _refuse_other_settings(folder, recipe, folder / record)
        if fresh:
            shutil.rmtree(folder / WORK, ignore_errors=True)
            (folder / record).unlink(missing_ok=True)
        for place in (folder, folder / WORK):
            remove_stale_files(place)
        remove_misplaced(folder / WORK)
        with only_used_kept(folder / WORK):
            yield


def refuse_foreign(folder: Path) -> None:
    """Raise if the folder has other files and is not that of a run."""
    with explaining_disk(folder):
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in found if not any(fnmatch(name, pattern) for pattern in OWN)]
    if others and not (folder / RECORD).is_file():
        raise IsoglossError(
            f"{folder}: contains other files ({', '.join(others[:3])}{', …' if len(others) > 3 else ''})",
            hint="name a new folder, or that of a run; nothing was changed",
        )


def remove_misplaced(work: Path) -> None:
    """Remove folders that have the name of a file of `work`, and files that have the name of a folder.

    Everything in `work` can be computed again. Damaged files are found where they are read.
    """
    folders = (work, *work.glob("*/"), *work.glob("data-*/*/"))
    for path in (path for folder in folders for path in folder.glob("*")):
        wanted = next((kind for kind, names in KINDS.items() if any(fnmatch(path.name, name) for name in names)), "")
        found = "folder" if path.is_dir() else "file"
        if wanted and wanted != found:
            remove(path)
            logger.warning("%s: removed, because it is a %s instead of a %s", path, found, wanted)


def _refuse_other_settings(folder: Path, recipe: Mapping[str, Any], record: Path) -> None:
    if not (folder / MODEL / "modules.json").is_file():
        return
    # A run that was killed after it saved its model may still have its record in its own place.
    difference = _difference(folder / RECORD if (folder / RECORD).exists() else record, recipe)
    if difference:
        raise IsoglossError(
            f"{folder}: has a finished model {difference}",
            hint="name another output folder, or replace it with --replace; nothing was changed",
        )


def _difference(record: Path, recipe: Mapping[str, Any]) -> str:
    """How the settings of a finished model differ from the recipe; empty if they do not."""
    try:
        known = read_json(record)
    except (OSError, ValueError):
        return "without a record of its settings"
    if not isinstance(known, dict) or not isinstance(known.get("recipe"), dict):
        return "of another command"
    before, now = dotted(known["recipe"]), dotted(masked_values(recipe))
    both = before.keys() & now.keys()  # another version may have other settings
    compared = [name for name in sorted(both) if not any(fnmatch(name, pattern) for pattern in IGNORED)]
    changed = changed_settings(*({name: one[name] for name in compared} for one in (before, now)))
    return f"of other settings ({changed})" if changed else ""

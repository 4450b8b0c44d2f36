"""The folder of a run while somebody works in it: one run at a time, nobody else's files, and no finished model lost.

All verbs that train enter their folder here. A folder with other things in it is refused, as `prepare` refuses one. The same
settings as before go on from what is there; a finished model of other settings is replaced only on request (`--replace`).
"""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

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
    remove_stale_files,
)
from isogloss.training.checkpoints import changed_settings
from isogloss.training.work_files import only_used_kept

logger = logging.getLogger(__name__)

MODEL, RESULTS, PAIRS, METRICS, REPLAY = "model", "results.json", "pairs", "metrics.jsonl", "replay"
KINDS = {  # of what is kept in `work`
    "file": ("*.npy", "*.npz", "*.pt", "*.json", "*.jsonl", "*.parquet", "*.i32", "*.i64", "keys", "done"),
    "folder": ("data-*", "checkpoints-*", "activations-*", "*.unfinished", "rows", "tokens", "candidate"),
}
OWN = (LOCK, WORK, "cache", MODEL, RESULTS, PAIRS, REPLAY, RECORD, "metrics*.jsonl", "trackers", f".*{TEMPORARY_MARK}*")
# Settings that change no weight: where things lie, what is computed where, how it is watched and measured.
PLACES = ("name", "output.*", "device", "threads", "teacher.batch_size", "training.engine")
WATCHING = ("training.checkpoint_seconds", "training.trackers")
MEASURING = ("evaluation.*", "add.gate", "add.gate_on")


@contextmanager
def run_folder(
    folder: Path,
    settings: Mapping[str, Any],
    fresh: bool = False,
    replace: bool = False,
    record: Path = Path(RECORD),
) -> Iterator[None]:
    """Work in `folder` alone; `settings` are the tables by which its record (`record`, within it) tells what was asked for.

    `fresh` forgets unfinished work first; `replace` lets a finished model of other settings go when the new one is there.
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
            _refuse_other_settings(folder, settings, folder / record)
        if fresh:
            shutil.rmtree(folder / WORK, ignore_errors=True)
            (folder / record).unlink(missing_ok=True)
        for place in (folder, folder / WORK):
            remove_stale_files(place)
        remove_misplaced(folder / WORK)
        with only_used_kept(folder / WORK):
            yield


def refuse_foreign(folder: Path) -> None:
    """A run is written to a new folder or to that of a run, never among other things."""
    with explaining_disk(folder):
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in found if not any(fnmatch(name, pattern) for pattern in OWN)]
    if others and not (folder / RECORD).is_file():
        raise IsoglossError(
            f"{folder}: has other things in it ({', '.join(others[:3])}{', …' if len(others) > 3 else ''})",
            hint="name a new folder, or that of a run; nothing was changed",
        )


def remove_misplaced(work: Path) -> None:
    """Remove folders that stand where a file should be in the work of a run, and files in the place of folders.

    All there is ours and can be made again. Files that are damaged are found where they are read.
    """
    for place in (work, *(path for path in work.glob("*") if path.is_dir()), *(path for path in work.glob("data-*/*"))):
        for path in place.glob("*") if place.is_dir() else ():
            wanted = next((kind for kind, names in KINDS.items() if any(fnmatch(path.name, name) for name in names)), None)
            if wanted == "file" and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif wanted == "folder" and not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                continue
            logger.warning("%s: a %s was in its place and is removed", path, "folder" if wanted == "file" else "file")


def _refuse_other_settings(folder: Path, settings: Mapping[str, Any], record: Path) -> None:
    if not (folder / MODEL / "modules.json").is_file():
        return
    # Killed after its model was saved, a run may have its record still where it kept it on the way.
    why = _differences(folder / RECORD if (folder / RECORD).exists() else record, settings)
    if why:
        raise IsoglossError(
            f"{folder}: has a finished model {why}",
            hint="name another output folder, or replace it with --replace; nothing was changed",
        )


def _differences(record: Path, settings: Mapping[str, Any]) -> str:
    """What tells a finished model from the one that is asked for; empty if nothing does."""
    try:
        known = read_json(record)
    except (OSError, ValueError):
        return "without a record of its settings"
    if not isinstance(known, dict) or not all(isinstance(known.get(name), dict) for name in settings):
        return "of another verb"
    before, now = (
        _by_name(tables[name] for name in settings) for tables in (known, json.loads(json.dumps(masked_values(settings))))
    )
    both = before.keys() & now.keys()  # a version of isogloss may know settings that another does not
    changed = changed_settings(*({name: one[name] for name in sorted(both)} for one in (before, now)))
    return f"of other settings ({changed})" if changed else ""


def _by_name(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Every value by its name, `training.epochs`, but for those that change no weight."""
    named: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            named |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    ignored = (*PLACES, *WATCHING, *MEASURING)
    return {name: value for name, value in named.items() if not any(fnmatch(name, pattern) for pattern in ignored)}

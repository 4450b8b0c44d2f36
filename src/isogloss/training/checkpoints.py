"""Checkpoint files: the full state of a training, and the best weights so far.

Each is one file, written atomically. The previous checkpoint is removed once the new one is in place, and best weights once no
checkpoint refers to them.

A training has a folder of its own, named after everything its weights depend on and the kind of engine, since no other kind can
load its state. Its settings lie beside its checkpoints, so that another training can say why it does not resume from them.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from isogloss.checksums import is_usable, sealing
from isogloss.config import TrainingSettings, as_dict
from isogloss.storage import make_folder, read_json, remove_stale_files, write_json
from isogloss.system_errors import cause_of
from isogloss.training.data.work_files import use
from isogloss.training.distributed import Distributed
from isogloss.training.health import Diagnosis

logger = logging.getLogger(__name__)

PATTERN, BEST, SETTINGS, FOLDER = "step-*.pt", "best-*.pt", "settings.json", "checkpoints-"
NAMED_SETTINGS = 3  # how many changed settings a message names

Settings = Mapping[str, Any]  # tables of settings, and settings that stand alone, as JSON has them


def learned_from(settings: TrainingSettings) -> dict[str, Any]:
    """The settings that the trained weights depend on."""
    others = ("checkpoint_seconds", "trackers", "engine")
    return {name: value for name, value in as_dict(settings).items() if name not in others}


def folder_of(work: Path, key: str, kind: str) -> Path:
    """Where a training keeps its checkpoints."""
    return work / f"{FOLDER}{key}-{kind}"


def open_folder(folder: Path, settings: Settings, distributed: Distributed) -> None:
    """Create a training's folder and write its settings there; warn if only another training has a checkpoint."""
    with distributed.main_process_first():  # before any process looks for a checkpoint in it
        found = passed_over(folder, settings)
        if found is not None and distributed.is_main_process:
            logger.warning("%s", found)
        use(folder)
        make_folder(folder)
        if not (folder / SETTINGS).exists():
            write_json(folder / SETTINGS, dict(settings))


def passed_over(folder: Path, settings: Settings) -> Diagnosis | None:
    """Why the newest checkpoint of the same stage beside `folder` cannot be used; None if `folder` has its own."""
    others = [path for path in folder.parent.glob(f"{FOLDER}*/{PATTERN}") if path.parent != folder]
    others = [path for path in others if (_settings_of(path) or settings).get("stage") == settings.get("stage")]
    if not others or any(folder.glob(PATTERN)):
        return None
    newest = max(others, key=lambda path: path.stat().st_mtime)
    (key, _, kind), (own_key, _, own_kind) = (path.name.removeprefix(FOLDER).partition("-") for path in (newest.parent, folder))
    theirs, ours = kind.split("-")[0], own_kind.split("-")[0]
    if key != own_key:
        reason = _other_settings(_settings_of(newest), settings)
        hint = "to resume from it, use what it was made with; to discard it, remove it or start with --fresh"
    elif theirs == ours:  # a single process keeps the token table's state in another form
        reason = "is of another number of processes"
        hint = "to resume from it, train with as many processes as before"
    else:
        reason = f"is of the {theirs} engine and this is the {ours} one"
        hint = f'to resume from it, set training.engine = "{theirs}"'
    found = f"{folder.parent}: the checkpoint of step {int(newest.stem.split('-')[1])} there {reason}"
    return Diagnosis(f"{found}, so training starts at step 0", hint)


def _settings_of(checkpoint: Path) -> Settings | None:
    """The settings of another training; None if an old version wrote none, or they are damaged."""
    try:
        settings = read_json(checkpoint.parent / SETTINGS)
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None


def _other_settings(before: Settings | None, settings: Settings) -> str:
    if before is None:
        return "is of other settings, pairs or models"
    changed = changed_settings(_by_name(before), _by_name(settings))
    return f"is of other settings ({changed})" if changed else "is of other pairs or models"


def changed_settings(before: Settings, now: Settings) -> str:
    """Which settings have changed, the first few with their old values; empty if none has."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    named = ", ".join(f"{name} was {before.get(name)!r}" for name in changed[:NAMED_SETTINGS])
    return f"{named} and {len(changed) - NAMED_SETTINGS} more" if len(changed) > NAMED_SETTINGS else named


def _by_name(settings: Settings) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for table, of in settings.items():
        named |= {f"{table}.{name}": value for name, value in of.items()} if isinstance(of, dict) else {table: of}
    return named


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write the state after `step` steps, remove the earlier ones, and return the file."""
    path = folder / f"step-{step:08d}.pt"
    with sealing(path) as temporary:
        torch.save(state, temporary)
    for old in folder.glob(PATTERN):
        if old != path:
            old.unlink()
    return path


def latest(folder: Path) -> dict[str, Any] | None:
    """The newest state, or None if there is none yet, or none that can be read."""
    remove_stale_files(folder)
    states = (_read(path) for path in sorted(folder.glob(PATTERN), reverse=True))
    return next((state for state in states if state is not None), None)


def save_best(folder: Path, weights: dict[str, Any], step: int, known: int | None = None) -> None:
    """Write the best weights so far, and keep those of step `known`, which the last checkpoint refers to."""
    with sealing(_best_of(folder, step)) as temporary:
        torch.save(weights, temporary)
    wanted = {_best_of(folder, number) for number in (step, known) if number is not None}
    for old in set(folder.glob(BEST)) - wanted:
        old.unlink()


def best(folder: Path, step: int) -> dict[str, Any] | None:
    """The weights of a step, if they were the best and still exist."""
    return _read(_best_of(folder, step))


def _best_of(folder: Path, step: int) -> Path:
    return folder / f"best-{step:08d}.pt"


def _read(path: Path) -> dict[str, Any] | None:
    """A checkpoint; None if there is none, or if it is damaged. A damaged one is removed: training starts again."""
    if not is_usable(path):
        return None
    state = None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has many exceptions for a damaged file
        if isinstance(error, OSError | MemoryError) and cause_of(error) is not None:  # the file itself may be intact
            raise
    if isinstance(state, dict):
        return state
    logger.warning("%s: the checkpoint cannot be read and is removed: training starts again", path)
    path.unlink(missing_ok=True)
    return None

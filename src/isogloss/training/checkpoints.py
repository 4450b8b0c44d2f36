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
from isogloss.training.distributed import Distributed
from isogloss.training.health import Diagnosis
from isogloss.training.work_files import use

logger = logging.getLogger(__name__)

PATTERN, BEST, SETTINGS, FOLDER = "step-*.pt", "best-*.pt", "settings.json", "checkpoints-"
FEW = 3  # settings that are named one by one

Settings = Mapping[str, Any]  # tables of settings, and settings that stand alone, as JSON has them


def folder_of(work: Path, key: str, kind: str) -> Path:
    """Where a training keeps its checkpoints."""
    return work / f"{FOLDER}{key}-{kind}"


def learned_from(settings: TrainingSettings) -> dict[str, Any]:
    """The settings that the trained weights depend on."""
    others = ("checkpoint_seconds", "trackers", "engine")
    return {name: value for name, value in as_dict(settings).items() if name not in others}


def open_folder(folder: Path, settings: Settings, distributed: Distributed) -> None:
    """Create a training's folder and write its settings there, before any process looks for a checkpoint in it."""
    with distributed.main_process_first():
        use(folder)
        make_folder(folder)
        if not (folder / SETTINGS).exists():
            write_json(folder / SETTINGS, dict(settings))


def passed_over(folder: Path, settings: Settings) -> Diagnosis | None:
    """Why the newest checkpoint of another training beside `folder` cannot be used; None if this one has its own."""
    others = [path for path in folder.parent.glob(f"{FOLDER}*/{PATTERN}") if path.parent != folder]
    if not others or any(folder.glob(PATTERN)):
        return None
    newest = max(others, key=lambda path: path.stat().st_mtime)
    key, _, kind = newest.parent.name.removeprefix(FOLDER).partition("-")
    mine, _, my_kind = folder.name.removeprefix(FOLDER).partition("-")
    reason, hint = _other_engine(kind, my_kind) if key == mine else _other_settings(newest.parent / SETTINGS, settings)
    found = f"{folder.parent}: the checkpoint of step {int(newest.stem.split('-')[1])} there {reason}"
    return Diagnosis("ignored", f"{found}, so training starts at step 0", hint)


def _other_engine(kind: str, mine: str) -> tuple[str, str]:
    theirs, ours = (name.split("-")[0] for name in (kind, mine))
    if theirs == ours:  # alone, a process keeps the token table's state in another form
        return "is of another number of processes", "to resume from it, train with as many processes as before"
    return f"is of the {theirs} engine and this is the {ours} one", f'to resume from it, set training.engine = "{theirs}"'


def _other_settings(path: Path, settings: Settings) -> tuple[str, str]:
    hint = "to resume from it, use what it was made with; to discard it, remove it or start with --fresh"
    try:
        before, now = _by_name(read_json(path)), _by_name(settings)
    except (OSError, ValueError, AttributeError):  # of a version that left none, or damaged
        return "is of other settings, pairs or models", hint
    changed = changed_settings(before, now)
    return (f"is of other settings ({changed})" if changed else "is of other pairs or models"), hint


def changed_settings(before: Settings, now: Settings) -> str:
    """Which settings are not as they were, the first few with their old values; empty if all are."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    named = ", ".join(f"{name} was {before.get(name)!r}" for name in changed[:FEW])
    return f"{named} and {len(changed) - FEW} more" if len(changed) > FEW else named


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
    """Keep the weights that did best on the dev pairs, and those of step `known`, which the last checkpoint speaks of."""
    with sealing(_best_of(folder, step)) as temporary:
        torch.save(weights, temporary)
    wanted = {_best_of(folder, number) for number in (step, known) if number is not None}
    for old in set(folder.glob(BEST)) - wanted:
        old.unlink()


def best(folder: Path, step: int) -> dict[str, Any] | None:
    """The weights of a step, if they were the best and are still there."""
    path = _best_of(folder, step)
    return _read(path)


def _best_of(folder: Path, step: int) -> Path:
    return folder / f"best-{step:08d}.pt"


def _read(path: Path) -> dict[str, Any] | None:
    """A checkpoint; None if it is not there, or damaged. It is removed then: training starts again."""
    if not is_usable(path):
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, MemoryError) as error:
        if cause_of(error) is not None:  # a file that cannot be opened now may be whole
            raise
        state = None
    except Exception:  # noqa: BLE001 - torch has many names for a damaged file
        state = None
    if isinstance(state, dict):
        return state
    logger.warning("%s: the checkpoint cannot be read and is removed: training starts again", path)
    path.unlink(missing_ok=True)
    return None

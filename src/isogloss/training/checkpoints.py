"""Checkpoints: all that training needs to go on as if it had never stopped, and the best weights so far.

One file each, written whole or not at all; a checkpoint's predecessor is removed only after the new one is in place, and
best weights only when no checkpoint speaks of them any more: a run that goes on from it may take other steps.
"""

from pathlib import Path
from typing import Any

import torch

from isogloss.errors import IsoglossError
from isogloss.storage import replacing, sweep

PATTERN, BEST = "step-*.pt", "best-*.pt"


def save(folder: Path, step: int, state: dict[str, Any]) -> None:
    """Write the state after `step` steps and let go of the earlier ones."""
    path = folder / f"step-{step:08d}.pt"
    with replacing(path) as temporary:
        torch.save(state, temporary)
    for old in folder.glob(PATTERN):
        if old != path:
            old.unlink()


def latest(folder: Path) -> dict[str, Any] | None:
    """The newest state, or None if there is none yet."""
    sweep(folder)
    found = sorted(folder.glob(PATTERN))
    return _read(found[-1]) if found else None


def save_best(folder: Path, weights: dict[str, Any], step: int, known: int | None = None) -> None:
    """Keep the weights that did best on the dev pairs, and those of step `known`, which the last checkpoint speaks of."""
    with replacing(_best_of(folder, step)) as temporary:
        torch.save(weights, temporary)
    wanted = {_best_of(folder, one) for one in (step, known) if one is not None}
    for old in set(folder.glob(BEST)) - wanted:
        old.unlink()


def best(folder: Path, step: int) -> dict[str, Any] | None:
    """The weights of a step, if they were the best and are still there."""
    path = _best_of(folder, step)
    return _read(path) if path.is_file() else None


def _best_of(folder: Path, step: int) -> Path:
    return folder / f"best-{step:08d}.pt"


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise IsoglossError(
            f"{path}: the checkpoint cannot be read ({type(error).__name__})",
            hint="remove the file; training starts again from the bridge",
        ) from error
    return state

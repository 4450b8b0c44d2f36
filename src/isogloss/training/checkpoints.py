"""Checkpoints: all that training needs to go on as if it had never stopped.

One file, written whole or not at all; the one before it is removed only after the new one is in place.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isogloss.errors import IsoglossError
from isogloss.storage import replacing, sweep

PATTERN = "step-*.pt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `step` steps."""

    step: int
    parameters: dict[str, torch.Tensor]
    optimiser: dict[str, Any]
    random: list[torch.Tensor]


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint and let go of the earlier ones."""
    path = folder / f"step-{checkpoint.step:08d}.pt"
    with replacing(path) as temporary:
        torch.save(
            {
                "step": checkpoint.step,
                "parameters": checkpoint.parameters,
                "optimiser": checkpoint.optimiser,
                "random": checkpoint.random,
            },
            temporary,
        )
    for old in folder.glob(PATTERN):
        if old != path:
            old.unlink()


def latest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint, or None if there is none yet."""
    sweep(folder)
    found = sorted(folder.glob(PATTERN))
    if not found:
        return None
    try:
        state = torch.load(found[-1], map_location="cpu", weights_only=True)
    except Exception as error:
        raise IsoglossError(
            f"{found[-1]}: the checkpoint cannot be read ({type(error).__name__})",
            hint="remove the file; training starts again from the bridge",
        ) from error
    return Checkpoint(state["step"], state["parameters"], state["optimiser"], state["random"])

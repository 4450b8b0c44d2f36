"""What a finished training leaves in its folder: away with what only other trainings, or nobody, would find again.

A folder that sees one recipe after another would grow without bound. What the last of them used stays, so that a second run
finds it; what was made for other pairs, models or settings goes with the model that it was made for.
"""

from collections.abc import Collection
from pathlib import Path

from isogloss.storage import remove

OF_A_TRAINING = ("data-*", "teacher-*", "untouched-*", "trained-*", "negatives-*", "checkpoints-*")
ACTIVATIONS = "activations-*"  # large, and made again by those who need them


def forget_leftovers(folder: Path | None, used: Collection[str]) -> None:
    """Remove activations, and all that belongs to a training but is not among the names that were `used`."""
    if folder is None:
        return
    for path in folder.glob(ACTIVATIONS):
        remove(path)
    for pattern in OF_A_TRAINING:
        for path in folder.glob(pattern):
            if path.name not in used:
                remove(path)

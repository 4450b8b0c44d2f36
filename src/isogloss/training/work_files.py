"""What a finished training leaves in its folder: away with what only other trainings, or nobody, would find again.

A folder that sees one recipe after another would grow without bound. What the last of them used stays, so that a second run
finds it; what was made for other pairs, models or settings goes once the new model is there. Whoever opens something that is
kept says so with `use`; whoever owns the folder (`runs.run_folder`) removes the rest at the end, with `only_used_kept`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from isogloss.storage import remove

OF_A_TRAINING = ("data-*", "teacher-*", "untouched-*", "trained-*", "negatives-*", "checkpoints-*")
ACTIVATIONS = "activations-*"  # large, and made again by those who need them

_used: ContextVar[set[Path] | None] = ContextVar("used", default=None)


def use(path: Path) -> None:
    """Note that what is kept under `path` is of use to the run at hand."""
    used = _used.get()
    if used is not None:
        used.add(path.absolute())


@contextmanager
def only_used_kept(folder: Path) -> Iterator[None]:
    """When the block has ended well, remove activations and all that belongs to a training but was not used in the block."""
    used: set[Path] = set()
    before = _used.set(used)
    try:
        yield
    finally:
        _used.reset(before)
    left = {path for pattern in OF_A_TRAINING for path in folder.glob(pattern) if path.absolute() not in used}
    for path in (*folder.glob(ACTIVATIONS), *left):
        remove(path)

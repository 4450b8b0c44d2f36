"""Files that a training keeps in its folder for the next run, and the removal of those that no run needs any more.

A folder that sees one recipe after another would grow without bound. What the last run used stays, so that a second run finds
it; files of other pairs, models or settings are removed once the new model is saved. Code that opens a kept file calls `use`;
the owner of the folder (`runs.run_folder`) removes the rest at the end, with `only_used_kept`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isogloss.checksums import load_array, save_array
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import remove
from isogloss.training.distributed import Distributed

Kept = TypeVar("Kept", np.float32, np.int64)

OF_A_TRAINING = ("data-*", "teacher-*", "untouched-*", "trained-*", "negatives-*", "checkpoints-*")
ACTIVATIONS = "activations-*"  # large, and made again by those who need them

_used: ContextVar[set[Path] | None] = ContextVar("used", default=None)


def use(path: Path) -> None:
    """Note that the current run needs what is kept under `path`."""
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


def kept_array(
    folder: Path | None,
    name: str,
    compute: Callable[[], NDArray[Kept]],
    distributed: Distributed | None = None,
    on_progress: OnProgress = silent,
    stage: str = "",
) -> NDArray[Kept]:
    """An array from a file in `folder`, or computed and written there; with several processes, by the main one."""
    if folder is None:
        return compute()
    path = folder / f"{name}.npy"
    use(path)
    with (distributed or Distributed()).main_process_first():
        kept = load_array(path)
        if kept is not None:
            on_progress(Step(stage, len(kept), len(kept), "sentences", "reused"))
            return np.asarray(kept)
        values = compute()
        save_array(path, values)
        kept = load_array(path)  # mapped, it takes no memory from the training that follows
        return values if kept is None else np.asarray(kept)

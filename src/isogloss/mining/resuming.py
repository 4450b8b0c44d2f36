"""A search that was interrupted goes on where it was: which stripes are done, and the best that were found by then.

    FOLDER/neighbours-KEY.npz     KEY names the vectors and what was asked of them

A saved state may know neighbours from stripes that are not marked as done; finding them again changes nothing.
"""

import logging
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isogloss.mining.neighbours import Vectors
from isogloss.storage import ContentHash, replacing
from isogloss.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from isogloss.mining.blockwise import Search

logger = logging.getLogger(__name__)

SAVE_SECONDS = 30.0  # how much work a kill -9 may cost
HASHED_AT_ONCE = 65_536
STATE = ("done", "left_ids", "left_similarity", "right_ids", "right_similarity")

Found = tuple[IntArray, FloatArray, IntArray, FloatArray]


class Kept:
    """What is kept of one search; nothing without a folder."""

    def __init__(self, folder: Path | str | None, left: Vectors, right: Vectors, asked: tuple[object, ...]) -> None:
        self.path = Path(folder) / f"neighbours-{_name(left, right, asked)}.npz" if folder is not None else None
        self._saved = time.monotonic()

    def load(self, stripes: int) -> tuple[BoolArray, Found] | None:
        """Which stripes are done, and what was found; None where nothing was kept, or it is damaged."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with self.path.open("rb") as handle, np.load(handle) as kept:
                done, *found = (kept[name] for name in STATE)
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
            logger.warning("%s is damaged; the search begins again", self.path)
            return None
        return (done, (found[0], found[1], found[2], found[3])) if len(done) == stripes else None

    def save(self, done: BoolArray, search: "Search", now: bool = False) -> None:
        """Keep the state, if it is time to."""
        if self.path is None or not (now or time.monotonic() - self._saved > SAVE_SECONDS):
            return
        with replacing(self.path) as temporary, temporary.open("wb") as handle:
            left_ids, left, right_ids, right = search.found()
            np.savez(handle, done=done, left_ids=left_ids, left_similarity=left, right_ids=right_ids, right_similarity=right)
        self._saved = time.monotonic()


def _name(left: Vectors, right: Vectors, asked: tuple[object, ...]) -> str:
    digest = ContentHash()
    digest.add(repr(asked))
    for vectors in (left, right):
        digest.add(repr((vectors.shape, str(vectors.dtype))))
        for start in range(0, len(vectors), HASHED_AT_ONCE):
            digest.add(np.ascontiguousarray(vectors[start : start + HASHED_AT_ONCE]).view(np.uint8).data)
    return digest.name()[:16]

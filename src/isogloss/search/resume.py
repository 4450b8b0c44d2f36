"""The saved state of a search: which stripes are done, and the best neighbours so far.

    FOLDER/neighbours-KEY.npz     KEY identifies the vectors and the parameters of the search
    FOLDER/index-KEY.npz          the arrays of an index, if there is one (faiss writes its own, index-KEY.faiss)

A saved state may have neighbours from stripes that are not marked as done; finding them again changes nothing.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isogloss.checksums import load_arrays, save_arrays
from isogloss.search.neighbours import Vectors
from isogloss.storage import ContentHash
from isogloss.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from isogloss.search.blockwise import Search

SAVE_SECONDS = 30.0  # how much work a kill -9 may cost
HASHED_AT_ONCE = 65_536
STATE = ("done", "left_ids", "left_similarity", "right_ids", "right_similarity")

Found = tuple[IntArray, FloatArray, IntArray, FloatArray]
Arrays = dict[str, NDArray[Any]]


class SearchState:
    """The saved state of one search; without a folder nothing is saved."""

    def __init__(self, folder: Path | str | None, left: Vectors, right: Vectors, asked: tuple[object, ...]) -> None:
        self.key = _name(left, right, asked) if folder is not None else ""
        self.path = Path(folder) / f"neighbours-{self.key}.npz" if folder is not None else None
        self._saved = time.monotonic()

    @classmethod
    def nothing(cls) -> "SearchState":
        """For a search that is too short to be saved."""
        none = np.empty((0, 0), dtype=np.float32)
        return cls(None, none, none, ())

    def load(self, stripes: int) -> tuple[BoolArray, Found] | None:
        """Which stripes are done, and what was found; None if nothing was saved, or it is damaged."""
        kept = load_arrays(self.path) if self.path is not None else None
        if kept is None or set(kept) != set(STATE):
            return None
        done, *found = (kept[name] for name in STATE)
        return (done, (found[0], found[1], found[2], found[3])) if len(done) == stripes else None

    def index_path(self, ending: str) -> Path | None:
        """Where the index of this search is saved."""
        return self.path.with_name(f"index-{self.key}{ending}") if self.path is not None else None

    def index(self, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of an index: loaded if they were saved, otherwise made and saved."""
        path = self.index_path(".npz")
        kept = load_arrays(path) if path is not None else None
        if kept is not None:
            return kept
        arrays = make()
        if path is not None:
            save_arrays(path, **arrays)
        return arrays

    def save(self, done: BoolArray, search: "Search", now: bool = False) -> None:
        """Save the state, if it is time to."""
        if self.path is None or not (now or time.monotonic() - self._saved > SAVE_SECONDS):
            return
        arrays: Arrays = dict(zip(STATE, (done, *search.found()), strict=True))
        save_arrays(self.path, **arrays)
        self._saved = time.monotonic()


def _name(left: Vectors, right: Vectors, asked: tuple[object, ...]) -> str:
    digest = ContentHash()
    digest.add(repr(asked))
    for vectors in (left, right):
        digest.add(repr((vectors.shape, str(vectors.dtype))))
        for start in range(0, len(vectors), HASHED_AT_ONCE):
            digest.add(np.ascontiguousarray(vectors[start : start + HASHED_AT_ONCE]).view(np.uint8).data)
    return digest.name()[:16]

"""Numbers for distinct sentences, found by their keys: a hash table in a file that is mapped into memory.

A sentence is known by a hash of 128 bits. The table has linear probing and a fixed size; its pages are those of an unnamed
file, so memory does not grow with the number of sentences, although a table that fits into the page cache is faster.

If two sentences had the same key, the second would get the tokens and the embedding of the first. Among twenty million
sentences that has a probability of about 10⁻²⁴.
"""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isogloss.models.vector_cache import KEY, Keys
from isogloss.storage import explaining_disk
from isogloss.types import BoolArray, IntArray

SLOT = np.dtype([("key", KEY), ("sentence", "<i8"), ("source", "<i8")])  # 0: no number yet; −1: being inserted
ZEROS_AT_ONCE = 1 << 16  # bytes


class SentenceTable:
    """Counts distinct sentences, and among them those that were seen as a source, in the order they come."""

    def __init__(self, folder: Path, most: int) -> None:
        """Room for `most` keys, in an unnamed file in `folder`."""
        self._slots = mapped_zeros(folder, SLOT, 64 + most + most // 2)

    def number(self, keys: Keys, column: str, first: int) -> tuple[IntArray, BoolArray]:
        """The number of each of some distinct keys in a column, and which are new: those get numbers from `first` on."""
        numbers, places = self._slots[column], self._places(keys)
        new: BoolArray = numbers[places] <= 0
        numbers[places[new]] = first + 1 + np.arange(np.count_nonzero(new))
        return numbers[places] - 1, new

    def _places(self, keys: Keys) -> IntArray:
        """The slot of each key; a new key takes the next free one."""
        places = (keys.view("<u8")[::2] % np.uint64(len(self._slots))).astype(np.int64)
        left = np.arange(len(keys))
        while len(left):
            here = places[left]
            free = self._slots["sentence"][here] == 0
            self._slots["key"][here[free]] = keys[left[free]]  # of several that want one slot, the last gets it
            self._slots["sentence"][here[free]] = -1
            left = left[self._slots["key"][here] != keys[left]]
            places[left] = (places[left] + 1) % len(self._slots)
        return places


def mapped_zeros(folder: Path, kind: "np.dtype[Any] | str", count: int) -> NDArray[Any]:
    """An array of zeros in an unnamed file in `folder`.

    The zeros are written first: on a full disk that is an error, while writing through the mapping would end the process.
    """
    size = count * np.dtype(kind).itemsize
    with explaining_disk(folder), TemporaryFile(dir=folder) as file:
        for start in range(0, size, ZEROS_AT_ONCE):
            file.write(bytes(min(ZEROS_AT_ONCE, size - start)))
        file.flush()
        return np.asarray(np.memmap(file, kind, "r+", shape=(count,)))

"""Row numbers for distinct sentences: any number of them, with a bounded part of them in memory.

A sentence is known by its key, a hash of 128 bits; equal keys get equal rows, and rows count first appearances: what
`dict.fromkeys` would give, if all keys fitted in memory. Keys stand in files in the order they come, and their rows are
written to files of the same order:

    1. Slice by slice of the space of keys, every key is traced to the place where it first appears.
    2. A place where a key first appears is marked by a bit. The row of a key is the number of marks before its place.

In memory are the distinct keys of one slice, and a quarter of a byte for each key in all.

If two different sentences had one key, the later one would take the earlier one's row, and so its tokens and its vector.
Among twenty million sentences that has a probability of about 10⁻²⁴; a disk is wrong more often.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.encode.cache import KEY, Keys
from isogloss.types import BoolArray, IntArray

WORD = 64  # bits


def number_rows(keys: Sequence[Path], rows: Sequence[Path], at_once: int) -> list[int]:
    """Write the row of each key of the files `keys` to the files `rows`.

    Rows are numbered through all files, in their order; returned is how many there are at the end of each. The files
    are gone through in stretches of `at_once` keys, once for each slice, and a slice has about as many distinct ones.
    """
    counts = [path.stat().st_size // KEY.itemsize for path in keys]
    widths = [-(-count // WORD) * WORD for count in counts]  # of places: every file begins with a word of its own
    starts = np.concatenate([[0], np.cumsum(widths)])
    for path, count in zip(rows, counts, strict=True):
        with path.open("wb") as handle:
            handle.truncate(8 * count)
    at_once = -(-at_once // WORD) * WORD
    slices = max(1, -(-sum(counts) // at_once))
    edges = [number * (2**64 // slices) for number in range(slices)] + [2**64]
    for low, high in pairwise(edges):
        known = _FirstPlaces()
        for start, key_path, row_path in zip(starts, keys, rows, strict=False):
            _trace(key_path, row_path, int(start), known, (np.uint64(low), np.uint64(high - 1)), at_once)
    marks = _Marks(int(starts[-1]))
    for start, path in zip(starts, rows, strict=False):
        for first, places in _numbers(path, at_once):
            marks.set(int(start) + first, places == np.arange(start + first, start + first + len(places)))
    marks.count()
    for path in rows:
        for first, places in _numbers(path, at_once):
            rewrite(path, first, marks.before(places))
    return [int(marks.before(starts[end : end + 1])[0]) for end in range(1, len(starts))]


def first_appearances(rows: IntArray, seen: int) -> BoolArray:
    """Which rows appear for the first time, where `seen` of them came before: rows are numbered in this order."""
    highest = np.maximum.accumulate(np.concatenate([[seen - 1], rows]))
    new: BoolArray = rows > highest[:-1]
    return new


def rewrite(path: Path, first: int, numbers: IntArray) -> None:
    """Replace the 64-bit numbers of a file from `first` on; written plainly, so that a full disk is an error and no crash."""
    with path.open("r+b") as handle:
        handle.seek(8 * first)
        handle.write(numbers.astype("<i8").tobytes())


def _trace(
    key_path: Path, row_path: Path, start: int, known: "_FirstPlaces", edges: tuple[np.uint64, np.uint64], at_once: int
) -> None:
    """Write for the keys of one slice of one file the place where each first appeared."""
    for first, keys in _keys(key_path, at_once):
        heads = keys.view("<u8")[::2]
        mine = np.flatnonzero((heads >= edges[0]) & (heads <= edges[1]))
        distinct, at, which = np.unique(keys[mine], return_index=True, return_inverse=True)
        places = known.of(distinct, start + first + mine[at])
        numbers = np.fromfile(row_path, "<i8", len(keys), offset=8 * first)
        numbers[mine] = places[which]
        rewrite(row_path, first, numbers)


class _FirstPlaces:
    """The distinct keys seen so far, sorted, and the place where each came first."""

    def __init__(self) -> None:
        self.keys: Keys = np.empty(0, dtype=KEY)
        self.places: IntArray = np.empty(0, dtype=np.int64)

    def of(self, keys: Keys, places: IntArray) -> IntArray:
        """The first place of each key, which is the one given for keys that are new. The keys are sorted and distinct."""
        at = np.searchsorted(self.keys, keys)
        old = np.zeros(len(keys), dtype=np.bool_)
        inside = at < len(self.keys)
        old[inside] = self.keys[at[inside]] == keys[inside]
        places = places.copy()
        places[old] = self.places[at[old]]
        self.keys = np.insert(self.keys, at[~old], keys[~old])
        self.places = np.insert(self.places, at[~old], places[~old])
        return places


class _Marks:
    """A bit for every place, and how many are set before any of them."""

    def __init__(self, places: int) -> None:
        self._words = np.zeros(places // WORD + 1, dtype="<u8")
        self._before: NDArray[np.int64] = np.zeros(len(self._words), dtype=np.int64)

    def set(self, start: int, marks: BoolArray) -> None:
        """Set the bits of the places from `start` on, which is the first of a word."""
        packed = np.packbits(marks, bitorder="little")
        self._words.view(np.uint8)[start // 8 : start // 8 + len(packed)] = packed

    def count(self) -> None:
        """All marks are set: count those before each word."""
        np.cumsum(np.bitwise_count(self._words[:-1]), out=self._before[1:])

    def before(self, places: IntArray) -> IntArray:
        """How many marks stand before each of the places."""
        word, bit = places // WORD, (places % WORD).astype(np.uint64)
        lower = self._words[word] & ((np.uint64(1) << bit) - np.uint64(1))
        counted: IntArray = self._before[word] + np.bitwise_count(lower)
        return counted


def _keys(path: Path, at_once: int) -> Iterator[tuple[int, Keys]]:
    """The keys of a file in stretches, each with the number of its first."""
    for first in range(0, path.stat().st_size // KEY.itemsize, at_once):
        yield first, np.fromfile(path, KEY, at_once, offset=KEY.itemsize * first)


def _numbers(path: Path, at_once: int) -> Iterator[tuple[int, IntArray]]:
    """The 64-bit numbers of a file in stretches, each with the number of its first."""
    for first in range(0, path.stat().st_size // 8, at_once):
        yield first, np.fromfile(path, "<i8", at_once, offset=8 * first)

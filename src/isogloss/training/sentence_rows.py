"""Row numbers for distinct sentences: any number of them, with a bounded part of them in memory.

A sentence is known by its key, a hash of 128 bits; equal keys get equal rows, and rows count first appearances: what
`dict.fromkeys` would give, if all keys fitted in memory. Keys stand in files in the order they come, and their rows are
written to files of the same order:

    1. The keys are gone through in stretches, and the distinct ones of each are dealt to slices of the space of keys, a file
       each. A slice is small enough to be sorted: so every key is traced to the place where it first appears.
    2. The keys are gone through again, and each gets that place from its slice, whose keys come in the same order.
    3. A place where a key first appears is marked by a bit. The row of a key is the number of marks before its place.

In memory are the keys of one stretch or of one slice, and a quarter of a byte for each key in all.

If two different sentences had one key, the later one would take the earlier one's row, and so its tokens and its vector.
Among twenty million sentences that has a probability of about 10⁻²⁴; a disk is wrong more often.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from isogloss.models.vector_cache import KEY, Keys
from isogloss.types import BoolArray, IntArray

WORD = 64  # bits
MOST_SLICES = 256  # files; of more keys than fit so many slices, a slice has more
RECORD = np.dtype([("key", KEY), ("place", "<i8")])


def number_rows(keys: Sequence[Path], rows: Sequence[Path], at_once: int) -> list[int]:
    """Write the row of each key of the files `keys` to the files `rows`.

    Rows are numbered through all files, in their order; returned is how many there are at the end of each. The files
    are gone through in stretches of `at_once` keys, and a slice has about as many.
    """
    counts = [path.stat().st_size // KEY.itemsize for path in keys]
    widths = [-(-count // WORD) * WORD for count in counts]  # of places: every file begins with a word of its own
    starts = np.concatenate([[0], np.cumsum(widths)])
    for path, count in zip(rows, counts, strict=True):
        with path.open("wb") as handle:
            handle.truncate(8 * count)
    at_once = -(-at_once // WORD) * WORD
    slices = max(1, -(-sum(counts) // at_once))
    _write_first_places(keys, rows, [int(start) for start in starts[:-1]], min(slices, MOST_SLICES), at_once)
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


def _write_first_places(keys: Sequence[Path], rows: Sequence[Path], starts: Sequence[int], slices: int, at_once: int) -> None:
    """Write for every key the place where it first appears; the places of a file begin with its start."""
    with TemporaryDirectory(prefix=".slices-", dir=rows[0].parent) as scratch:
        dealt = _Slices(Path(scratch), slices)
        for start, path in zip(starts, keys, strict=True):
            for first, block in _keys(path, at_once):
                dealt.deal(block, start + first)
        dealt.trace()
        for key_path, row_path in zip(keys, rows, strict=True):
            for first, block in _keys(key_path, at_once):
                rewrite(row_path, first, dealt.first_places(block))


class _Slices:
    """Keys in files by their first bytes, each with its place; then, in the same order, the place where it came first."""

    def __init__(self, folder: Path, count: int) -> None:
        self._files = [folder / str(number) for number in range(count)]
        self._edges = np.array([number * (2**64 // count) for number in range(1, count)], dtype=np.uint64)
        self._given = np.zeros(count, dtype=np.int64)  # first places of each file that were given out
        for path in self._files:
            path.touch()

    def deal(self, keys: Keys, start: int) -> None:
        """Add the distinct keys of a stretch, each with the first of its places, which are counted from `start`."""
        distinct, at = np.unique(keys, return_index=True)
        records = np.empty(len(distinct), dtype=RECORD)
        records["key"], records["place"] = distinct, start + at
        for path, begin, end in self._parts(distinct):
            with path.open("ab") as handle:
                handle.write(records[begin:end].tobytes())

    def trace(self) -> None:
        """All keys are dealt: write down where each comes first."""
        for path in self._files:
            records = np.fromfile(path, RECORD)
            _, at, which = np.unique(records["key"], return_index=True, return_inverse=True)
            path.write_bytes(records["place"][at][which].tobytes())

    def first_places(self, keys: Keys) -> IntArray:
        """Where each key of the next stretch first appeared. Stretches are those that were dealt, in the same order."""
        distinct, which = np.unique(keys, return_inverse=True)
        places = np.empty(len(distinct), dtype=np.int64)
        for number, (path, begin, end) in enumerate(self._parts(distinct)):
            places[begin:end] = np.fromfile(path, "<i8", end - begin, offset=8 * int(self._given[number]))
            self._given[number] += end - begin
        first: IntArray = places[which]
        return first

    def _parts(self, distinct: Keys) -> Iterator[tuple[Path, int, int]]:
        """Which of some sorted keys belong to each file."""
        heads = distinct.view(">u8")[::2].astype(np.uint64)
        inner = np.searchsorted(heads, self._edges).tolist()
        return zip(self._files, [0, *inner], [*inner, len(distinct)], strict=True)


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

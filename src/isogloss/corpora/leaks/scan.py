"""The leak scan: training text that is also evaluation text is found before it is trained on.

Three levels, each with the ones before it: the same text; the same letters and digits, whatever the case, spaces and
punctuation; eight words in a row in common (sixteen characters where a script has no spaces). Only hashes of the
evaluation text are kept, so the scan costs the same memory whatever it is compared with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.corpora.text.hashing import GOLDEN, Hashes, among, distinct, mix
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.storage import content_hash
from isogloss.types import BoolArray, IntArray

LEVELS = ("off", "exact", "normalized", "near")
CLEAN, EXACT, NORMALIZED, NEAR = range(4)
WORDS_IN_A_ROW, CHARACTERS_IN_A_ROW = 8, 16


class HashSet:
    """A set of 64-bit hashes that answers for a whole block: a bitmap says no at once, a sorted array makes sure of yes."""

    def __init__(self, hashes: Iterable[Hashes]) -> None:
        self._sorted = distinct(np.concatenate([np.zeros(0, dtype=np.uint64), *hashes]))
        self._bitmap: BoolArray | None = None

    def __len__(self) -> int:
        """Number of distinct hashes."""
        return len(self._sorted)

    def __getstate__(self) -> Hashes:
        """The hashes alone travel to another process; the bitmap is made again there."""
        return self._sorted

    def __setstate__(self, state: Hashes) -> None:
        self._sorted, self._bitmap = state, None

    def has(self, hashes: Hashes) -> BoolArray:
        """Which of these are in the set."""
        if not len(self._sorted):
            return np.zeros(len(hashes), dtype=np.bool_)
        if self._bitmap is None:
            self._bits = min(24, 5 + len(self._sorted).bit_length())  # one place in 32 is taken: few false alarms
            self._bitmap = np.zeros(1 << self._bits, dtype=np.bool_)
            self._bitmap[_short(self._sorted, self._bits)] = True
        found = self._bitmap.take(_short(hashes, self._bits))
        maybe = np.flatnonzero(found)
        found[maybe] = among(hashes[maybe], self._sorted)
        return found


def _short(hashes: Hashes, bits: int) -> IntArray:
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def runs_of_words(side: Side) -> tuple[Hashes, NDArray[np.int64]]:
    """The hash of every eight words in a row (sixteen characters in unspaced scripts), and the sentence it is from."""
    words, owner, lone = side.tokens
    before = np.concatenate([[0], np.cumsum(lone)])
    hashes, owners = [], []
    for size, unbroken in ((WORDS_IN_A_ROW, False), (CHARACTERS_IN_A_ROW, True)):
        names, places = _windows(words, owner, size)
        # A window with an unspaced character in it counts when it is long, one of spaced words when it is short.
        places = places[(before[places + size] > before[places]) == unbroken]
        hashes.append(names.take(places))
        owners.append(owner.take(places))
    return np.concatenate(hashes), np.concatenate(owners)


def _windows(words: Hashes, owner: IntArray, size: int) -> tuple[Hashes, IntArray]:
    """The hash of every window of `size` words, by the place of its first, and the places whose window is in one sentence."""
    count = len(words) - size + 1
    if count < 1:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    total = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        total = total * GOLDEN + words[place : place + count]
    whole = np.flatnonzero(owner[size - 1 :] == owner[:count])
    return mix(total), whole


@dataclass(frozen=True, slots=True)
class ScannedSet:
    """One evaluation set that is guarded: its name, how many texts of it were read, a hash of them, and the level."""

    name: str
    texts: int
    hash: str
    level: str
    before: bool = False  # not in this preparation, but in those of all stores that it was made from


class LeakScanner:
    """All evaluation text that must not be trained on, as hashes."""

    def __init__(self, sets: Iterable[tuple[str, pa.Array]], level: str = "near", form: str = "nfc") -> None:
        self.level = LEVELS.index(level)
        self.sets: list[ScannedSet] = []
        exact, normalized, runs = [], [], []
        for name, texts in sets:
            side = Side(normalize_block(texts, form)[0], "")
            exact.append(side.exact_hashes)
            normalized.append(side.normalized_hashes[np.diff(side.kept_starts) > 0])
            runs.append(runs_of_words(side)[0])
            self.sets.append(ScannedSet(name, len(side), content_hash(np.sort(exact[-1]).tobytes())[:16], level))
        self._exact = HashSet(exact if self.level >= EXACT else [])
        self._normalised = HashSet(normalized if self.level >= NORMALIZED else [])
        self._runs = HashSet(runs if self.level >= NEAR else [])

    @property
    def key(self) -> str:
        """Names everything the scan's answers depend on."""
        return content_hash(str(self.level), *(one.hash for one in self.sets))[:16]

    def check(self, side: Side) -> NDArray[np.uint8]:
        """For every sentence, the first level at which it is evaluation text; CLEAN where it is not."""
        result = np.zeros(len(side), dtype=np.uint8)
        if not len(self._exact):
            return result
        if len(self._runs):
            hashes, owner = runs_of_words(side)
            result[owner[self._runs.has(hashes)]] = NEAR
        if len(self._normalised):
            result[self._normalised.has(side.normalized_hashes)] = NORMALIZED  # no text without a letter is among them
        result[self._exact.has(side.exact_hashes)] = EXACT
        return result


def scanned_before(inputs: Iterable[Sequence[ScannedSet]], now: Sequence[ScannedSet]) -> list[ScannedSet]:
    """The sets that every input was scanned for, each at the least of their levels, where that is more than is done now."""
    known, found = [{one.hash: one for one in sets} for sets in inputs], []
    done = {one.hash: _strength(one) for one in now}
    for key in known[0] if known else ():
        if all(key in own for own in known):
            least = min((own[key] for own in known), key=_strength)
            if _strength(least) > done.get(key, CLEAN):
                found.append(replace(least, before=True))
    return found


def _strength(one: ScannedSet) -> int:
    return LEVELS.index(one.level)

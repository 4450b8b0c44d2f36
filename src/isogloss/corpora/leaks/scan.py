"""The leak scan: find training text that is also evaluation text.

Levels, each including the ones before: "exact" text; "normalized", the same letters and digits whatever the case, spaces and
punctuation; "near", eight consecutive words in common (sixteen characters in scripts without spaces). Only hashes of the
evaluation text are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.corpora.text.arrays import starts_of
from isogloss.corpora.text.hashing import GOLDEN, Hashes, among, distinct, mix
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.storage import content_hash
from isogloss.types import BoolArray, IntArray

LEVELS = ("off", "exact", "normalized", "near")
CLEAN, EXACT, NORMALIZED, NEAR = range(4)
NGRAM_WORDS, NGRAM_CHARACTERS = 8, 16


class HashSet:
    """A set of 64-bit hashes with lookups for a whole block: a bitmap, then a sorted array for its hits."""

    def __init__(self, hashes: Iterable[Hashes]) -> None:
        self._sorted = distinct(np.concatenate([np.zeros(0, dtype=np.uint64), *hashes]))
        self._bits = min(24, 5 + len(self._sorted).bit_length())  # one bit in 32 is set: few false positives
        self._bitmap = np.zeros(1 << self._bits, dtype=np.bool_)
        self._bitmap[self._short(self._sorted)] = True

    def has(self, hashes: Hashes) -> BoolArray:
        """Which of these are in the set."""
        found = self._bitmap.take(self._short(hashes))
        maybe = np.flatnonzero(found)
        found[maybe] = among(hashes[maybe], self._sorted)
        return found

    def _short(self, hashes: Hashes) -> IntArray:
        return (hashes >> np.uint64(64 - self._bits)).astype(np.int64)


def word_ngrams(side: Side) -> tuple[Hashes, NDArray[np.int64]]:
    """The hash of every eight consecutive words (sixteen characters in unspaced scripts), and its sentence."""
    words, owner, lone = side.tokens
    before = starts_of(lone)
    hashes, owners = [], []
    for size, unbroken in ((NGRAM_WORDS, False), (NGRAM_CHARACTERS, True)):
        names, places = _windows(words, owner, size)
        # Windows with an unspaced character count if long, windows of words if short.
        places = places[(before[places + size] > before[places]) == unbroken]
        hashes.append(names.take(places))
        owners.append(owner.take(places))
    return np.concatenate(hashes), np.concatenate(owners)


def _windows(words: Hashes, owner: IntArray, size: int) -> tuple[Hashes, IntArray]:
    """The hash of every window of `size` words by its first word, and which windows are within one sentence."""
    count = max(0, len(words) - size + 1)
    total = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        total = total * GOLDEN + words[place : place + count]
    whole = np.flatnonzero(owner[size - 1 :] == owner[:count])
    return mix(total), whole


@dataclass(frozen=True, slots=True)
class ScannedSet:
    """One evaluation set that training text was checked against: name, number of texts, their hash, and the level."""

    name: str
    texts: int
    hash: str
    level: str
    before: bool = False  # not in this preparation, but in those of all its input stores


class LeakScanner:
    """Hashes of all evaluation text that must not be trained on."""

    def __init__(self, sets: Iterable[tuple[str, pa.Array]], level: str = "near", form: str = "nfc") -> None:
        self.level = LEVELS.index(level)
        self.sets: list[ScannedSet] = []
        exact, normalized, runs = [], [], []
        for name, texts in sets:
            side = Side(normalize_block(texts, form), "")
            exact.append(side.exact_hashes)
            normalized.append(side.normalized_hashes[np.diff(side.kept_starts) > 0])
            runs.append(word_ngrams(side)[0])
            self.sets.append(ScannedSet(name, len(side), content_hash(np.sort(exact[-1]).tobytes())[:16], level))
        self._exact, self._normalized, self._runs = HashSet(exact), HashSet(normalized), HashSet(runs)

    @property
    def key(self) -> str:
        """Hash of everything the results depend on."""
        return content_hash(str(self.level), *(one.hash for one in self.sets))[:16]

    def check(self, side: Side) -> NDArray[np.uint8]:
        """For every sentence, the strictest level at which it is evaluation text, or CLEAN."""
        result = np.zeros(len(side), dtype=np.uint8)
        if not self.sets:
            return result
        if self.level >= NEAR:
            hashes, owner = word_ngrams(side)
            result[owner[self._runs.has(hashes)]] = NEAR
        if self.level >= NORMALIZED:
            result[self._normalized.has(side.normalized_hashes)] = NORMALIZED  # none of these are without a letter
        if self.level >= EXACT:
            result[self._exact.has(side.exact_hashes)] = EXACT
        return result


def scanned_sets(scan: Mapping[str, Any]) -> tuple[ScannedSet, ...]:
    """The sets of the leak scan in a manifest."""
    return tuple(ScannedSet(one["name"], one["texts"], one["hash"], one.get("level", scan["level"])) for one in scan["sets"])


def scanned_before(inputs: Iterable[Sequence[ScannedSet]], now: Sequence[ScannedSet]) -> list[ScannedSet]:
    """The sets that every input was checked against, at the lowest of their levels, if that is stricter than now."""
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

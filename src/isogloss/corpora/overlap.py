"""Which source sentences corpora and languages have in common, counted in one pass and bounded memory.

A sentence is its 64-bit name (text/hashing.py). While the names fit, every sentence is looked at and all counts are exact.
When they no longer do, only those are kept whose name ends in one more zero bit, which is half of them: the same half in
every corpus and language, so what two of them share is still seen to be shared, and counts are scaled up.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.corpora.text.hashing import Hashes, distinct
from isogloss.types import IntArray

LIMIT = 2**22  # names kept at once: 32 MiB, and a few times that while they are counted
SENTENCES_AT_A_TIME = 2**17


@dataclass(frozen=True, slots=True)
class Overlap:
    """How the source sentences of a store are spread over its corpora and languages.

    `shared[a][b]` counts the distinct sentences that corpora a and b both have, `shared[a][a]` those of a alone;
    `ways[n]` counts the sentences that are translated into n + 1 languages. One sentence in `one_in` was looked at: at 1
    the counts are exact, above it they are estimates.
    """

    corpora: tuple[str, ...]
    shared: tuple[tuple[int, ...], ...]
    ways: tuple[int, ...]
    one_in: int

    @property
    def sentences(self) -> int:
        """Distinct source sentences of all corpora together."""
        return sum(self.ways)

    def share(self, corpus: str, other: str) -> float:
        """The share of the distinct source sentences of `corpus` that `other` has too."""
        one, two = self.corpora.index(corpus), self.corpora.index(other)
        return self.shared[one][two] / max(self.shared[one][one], 1)

    def largest(self, number: int) -> list[tuple[str, str, float]]:
        """The corpora that are most contained in another one: corpus, the other, and the share; none that share nothing."""
        found = [(one, two, self.share(one, two)) for one in self.corpora for two in self.corpora if one != two]
        return sorted((one for one in found if one[2]), key=lambda one: (-one[2], one[:2]))[:number]


class SourceSketch:
    """Takes in the names of source sentences, corpus and language by corpus and language, and forgets what it must."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.one_in = 1
        self._names: dict[tuple[str, str], list[Hashes]] = {}
        self._held = 0

    def add(self, corpus: str, language: str, names: Hashes) -> None:
        """More sentences of a corpus in a language; they may repeat."""
        own = distinct(self._sampled(names))
        self._names.setdefault((corpus, language), []).append(own)
        self._held += len(own)
        if self._held > self.limit:
            self._shrink()

    def _sampled(self, names: Hashes) -> Hashes:
        return names if self.one_in == 1 else names[names & np.uint64(self.one_in - 1) == 0]

    def _shrink(self) -> None:
        """Forget repetitions; if that does not free a quarter of the room, every second sentence too, until it is free."""
        self._merge()
        while self._held > self.limit * 3 // 4:
            self.one_in *= 2
            self._merge()

    def _merge(self) -> None:
        self._names = {cell: [distinct(self._sampled(np.concatenate(own)))] for cell, own in self._names.items()}
        self._held = sum(len(own[0]) for own in self._names.values())

    def overlap(self) -> Overlap:
        """Count what was taken in."""
        self._merge()
        cells = sorted(self._names)
        corpora, languages = (sorted({cell[place] for cell in cells}) for place in (0, 1))
        sizes = [len(self._names[cell][0]) for cell in cells]
        names = np.concatenate([self._names[cell][0] for cell in cells] or [np.empty(0, dtype=np.uint64)])
        order = np.argsort(names)
        names = names[order]
        # Sentences in order of their names, numbered from 0: the same name has the same number.
        sentence = np.cumsum(np.append(False, names[1:] != names[:-1])) if len(names) else np.empty(0, dtype=np.int64)
        corpus = np.repeat([corpora.index(cell[0]) for cell in cells], sizes)[order]
        language = np.repeat([languages.index(cell[1]) for cell in cells], sizes)[order]
        shared = self.one_in * _shared(sentence, corpus, len(corpora))
        ways = self.one_in * _ways(sentence, language, len(languages))
        return Overlap(tuple(corpora), tuple(tuple(row) for row in shared.tolist()), tuple(ways.tolist()), self.one_in)


def _shared(sentence: IntArray, corpus: IntArray, corpora: int) -> IntArray:
    """For every two corpora, how many sentences both have; `sentence` is sorted."""
    counts = np.zeros((corpora, corpora), dtype=np.int64)
    last = int(sentence[-1]) + 1 if len(sentence) else 0
    for start in range(0, last, SENTENCES_AT_A_TIME):
        stop = min(start + SENTENCES_AT_A_TIME, last)
        rows = slice(*np.searchsorted(sentence, [start, stop]))
        has = np.zeros((stop - start, corpora), dtype=np.float32)  # counts stay below 2^24, so float32 is exact
        has[sentence[rows] - start, corpus[rows]] = 1
        counts += (has.T @ has).astype(np.int64)
    return counts


def _ways(sentence: IntArray, language: IntArray, languages: int) -> IntArray:
    """How many sentences have one language, two languages, and so on."""
    if not len(sentence):
        return np.empty(0, dtype=np.int64)
    pairs = np.sort(sentence * languages + language)
    once = pairs[np.append(True, pairs[1:] != pairs[:-1])]
    ways: IntArray = np.bincount(np.bincount(once // languages))[1:]
    return ways

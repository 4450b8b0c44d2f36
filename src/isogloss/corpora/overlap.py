"""Count the source sentences that corpora and languages share, in one pass and bounded memory.

A sentence is represented by its 64-bit hash. While all hashes fit into memory, counts are exact. Beyond that, only hashes that
end in one more zero bit are kept: the same half in every corpus and language, so overlaps stay visible and counts are scaled.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.corpora.text.hashing import Hashes, among, distinct

LIMIT = 2**22  # hashes in memory: 32 MiB, and a few times that while they are counted


@dataclass(frozen=True, slots=True)
class Overlap:
    """How source sentences are spread over corpora and languages.

    `shared[a][b]` counts the distinct sentences in both corpora a and b, `shared[a][a]` those in a; `ways[n]` counts the
    sentences with translations into n + 1 languages. One sentence in `one_in` was counted: above 1, counts are estimates.
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
        """The largest overlaps: a corpus, another one, and the share of the first that the second has too."""
        found = [(one, two, self.share(one, two)) for one in self.corpora for two in self.corpora if one != two]
        return sorted((one for one in found if one[2]), key=lambda one: (-one[2], one[:2]))[:number]


class SourceSketch:
    """Collects hashes of source sentences, and samples them if there are too many."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.one_in = 1
        self._hashes: dict[tuple[str, str], list[Hashes]] = {}
        self._held = 0

    def add(self, corpus: str, language: str, hashes: Hashes) -> None:
        """Add sentences of a corpus in a language."""
        own = distinct(self._sampled(hashes))
        self._hashes.setdefault((corpus, language), []).append(own)
        self._held += len(own)
        if self._held > self.limit:
            self._shrink()

    def _sampled(self, hashes: Hashes) -> Hashes:
        return hashes if self.one_in == 1 else hashes[hashes & np.uint64(self.one_in - 1) == 0]

    def _shrink(self) -> None:
        """Merge duplicates; halve the sample until a quarter of the room is free."""
        self._merge()
        while self._held > self.limit * 3 // 4:
            self.one_in *= 2
            self._merge()

    def _merge(self) -> None:
        self._hashes = {cell: [distinct(self._sampled(np.concatenate(own)))] for cell, own in self._hashes.items()}
        self._held = sum(len(own[0]) for own in self._hashes.values())

    def overlap(self) -> Overlap:
        """The overlap of everything added."""
        self._merge()
        corpora, languages = self._by(0), self._by(1)
        shared = [[self.one_in * int(among(own, other).sum()) for other in corpora.values()] for own in corpora.values()]
        translations = np.unique(np.concatenate([np.empty(0, np.uint64), *languages.values()]), return_counts=True)[1]
        ways = self.one_in * np.bincount(translations)[1:]
        return Overlap(tuple(corpora), tuple(map(tuple, shared)), tuple(ways.tolist()), self.one_in)

    def _by(self, place: int) -> dict[str, Hashes]:
        """The distinct sentences of each corpus (0) or language (1), sorted."""
        found: dict[str, list[Hashes]] = {}
        for cell, own in sorted(self._hashes.items(), key=lambda item: item[0][place]):
            found.setdefault(cell[place], []).extend(own)
        return {name: distinct(np.concatenate(own)) for name, own in found.items()}

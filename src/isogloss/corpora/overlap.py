"""Count the source sentences that corpora and languages share, in one pass and bounded memory.

A sentence is represented by its 64-bit hash. While all hashes fit into memory, counts are exact. Beyond that, only hashes that
end in one more zero bit are kept: the same half in every corpus and language, so overlaps stay visible and counts are scaled.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isogloss.corpora.text.hashing import Hashes, distinct
from isogloss.types import IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
        cells = sorted(self._hashes)
        corpora, languages = (sorted({cell[place] for cell in cells}) for place in (0, 1))
        hashes = [self._hashes[cell][0] for cell in cells]
        sentence = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *hashes]), return_inverse=True)[1]
        corpus, language = (
            _incidence(sentence, np.repeat([names.index(cell[place]) for cell in cells], list(map(len, hashes))), len(names))
            for place, names in enumerate((corpora, languages))
        )
        shared = self.one_in * (corpus.T @ corpus).toarray()
        ways = self.one_in * np.bincount(np.diff(language.indptr))[1:]
        return Overlap(tuple(corpora), tuple(tuple(row) for row in shared.tolist()), tuple(ways.tolist()), self.one_in)


def _incidence(sentence: IntArray, column: IntArray, columns: int) -> "csr_array":
    """Sentences × corpora (or languages): 1 where a sentence is in a corpus."""
    from scipy.sparse import csr_array

    ones, shape = np.ones(len(sentence), dtype=np.int64), (int(sentence.max(initial=-1)) + 1, columns)
    found = csr_array((ones, (sentence, column.astype(np.int64))), shape=shape)
    found.data[:] = 1  # what occurs twice was added up
    return found

"""Dev pairs: what training measures itself on, a few of each language, taken out of the training pairs.

The test split (`corpora.selecting`) is for the report; these choose a checkpoint and end a run early, so they may be few.
*Source sentences* are chosen, and all their pairs go: no translation of a dev sentence is trained on, in any language.

    wanted_l = min(per_language, ⌊share · pairs_l⌋)          for each language l

Languages take turns, the one with the fewest pairs first. Each goes through its sources in an order that a hash and the
seed give, and takes what fits until it has `wanted_l` pairs, those counted that came with other languages' sources. A
source fits if no language then has more than ⌊share · pairs_l⌋ dev pairs, and the language whose turn it is no more than
`wanted_l`. So:

- no language ever gives more than `share` of its pairs, and one with fewer than 1 / share pairs gives none;
- a language gets what it wants unless its sources do not fit; it gets more only by what smaller ones took with them;
- what is chosen depends on the text and the seed, not on the order of rows.

Left alone are sources that are also trained on as source text (a pair of a sentence with itself: it has no translation to
find, and holding out the others would not keep the sentence from being seen), and sources with more than
`MOST_TRANSLATIONS` pairs in one language: a "Yes." with hundreds of them would fill a dev set by itself.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from isogloss.corpora.text.hashing import Hashes, mix
from isogloss.types import BoolArray, IntArray

MOST_TRANSLATIONS = 8
CHUNK = 1024  # sources that are looked at together, at least


def hold_out(
    source: IntArray,
    target: IntArray,
    language: IntArray,
    key: Hashes,
    per_language: int,
    share: float,
    seed: int,
) -> BoolArray:
    """Which pairs are dev pairs.

    `source` and `target` are row numbers of sentences, `language` a code from 0, `key` a hash of the source's text: pairs
    with equal keys stay together, so a hash of letters and digits alone also keeps near copies of a source together.
    """
    if not len(source):
        return np.zeros(0, dtype=np.bool_)
    rank, sources = _ranks(key, seed)
    itself = source == target
    sets = DevSets.over(Cells.of(rank[~itself], language[~itself], sources), per_language, share)
    sets.leave_alone(rank[itself])
    for code in sets.by_size():
        sets.fill(code)
    return sets.held[rank]


def _ranks(key: Hashes, seed: int) -> tuple[IntArray, int]:
    """The place of each pair's source in an order of all sources that looks random, and the number of sources."""
    salt = mix(np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64))
    priority = mix(key ^ salt)
    order = np.argsort(priority)
    priority = priority[order]
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.cumsum(np.append(False, priority[1:] != priority[:-1]))
    return rank, int(rank[order[-1]]) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """How many pairs each source has in each language that it has any in; sorted by source, then by language."""

    source: IntArray
    language: IntArray
    pairs: IntArray
    starts: IntArray  # the cells of source s are starts[s] to starts[s + 1]

    @classmethod
    def of(cls, source: IntArray, language: IntArray, sources: int) -> Self:
        """Count pairs, given by their source and their language."""
        languages = int(language.max(initial=0)) + 1
        cells = np.sort(source * languages + language)
        first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1])) if len(cells) else np.zeros(0, dtype=np.int64)
        pairs = np.diff(np.append(first, len(cells)))
        cells = cells[first]
        starts = np.searchsorted(cells, np.arange(sources + 1) * languages)
        return cls(cells // languages, cells % languages, pairs, starts)

    def among(self, sources: IntArray) -> tuple[IntArray, IntArray]:
        """The cells of the given sources, and for each the place of its source among them."""
        sizes = self.starts[sources + 1] - self.starts[sources]
        place = np.repeat(np.arange(len(sources)), sizes)
        within = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.starts[sources][place] + within, place


@dataclass(slots=True, eq=False)
class DevSets:
    """The dev sets of all languages as they are filled: which sources are held out, and how many pairs that makes."""

    cells: Cells
    wanted: IntArray
    most: IntArray
    count: IntArray
    held: BoolArray
    eligible: BoolArray
    of_language: list[IntArray]  # the sources of each language, in order

    @classmethod
    def over(cls, cells: Cells, per_language: int, share: float) -> Self:
        """Empty sets, with what each may and should come to hold."""
        pairs = np.bincount(cells.language, weights=cells.pairs).astype(np.int64)
        most = np.floor(share * pairs).astype(np.int64)
        eligible = np.ones(len(cells.starts) - 1, dtype=np.bool_)
        eligible[cells.source[cells.pairs > MOST_TRANSLATIONS]] = False
        by_language = np.argsort(cells.language.astype(np.min_scalar_type(len(pairs))), kind="stable")
        ends = np.cumsum(np.bincount(cells.language, minlength=len(pairs)))
        of_language = np.split(cells.source[by_language], ends[:-1])
        held = np.zeros(len(eligible), dtype=np.bool_)
        return cls(cells, np.minimum(per_language, most), most, np.zeros_like(most), held, eligible, of_language)

    def leave_alone(self, sources: IntArray) -> None:
        """Never hold these out."""
        self.eligible[sources] = False

    def by_size(self) -> list[int]:
        """Languages that want pairs, the one with the fewest first: its choice is the smallest."""
        sizes = np.bincount(self.cells.language, weights=self.cells.pairs)
        return [code for code in np.argsort(sizes, kind="stable").tolist() if self.wanted[code]]

    def fill(self, language: int) -> None:
        """Hold out sources of a language, in order, until it has as many pairs as it wants or has no source left."""
        limit = self.most.copy()
        limit[language] = max(self.wanted[language], self.count[language])
        of_language = self.of_language[language]
        candidates = of_language[self.eligible[of_language] & ~self.held[of_language]]
        start = 0
        while start < len(candidates) and self.count[language] < limit[language]:
            stop = start + max(CHUNK, int(limit[language] - self.count[language]))
            self._take(candidates[start:stop], limit)
            start = stop

    def _take(self, sources: IntArray, limit: IntArray) -> None:
        """Hold out, one after the other, the sources that fit.

        Those up to the first that does not fit are taken at once. That one has more pairs in a language than are left to
        it, and so may others that come later; they are dropped and the rest is looked at again. What is left to a language
        gets less with each look, so there are few.
        """
        while len(sources):
            left = limit - self.count
            cells, place = self.cells.among(sources)
            sources = np.delete(sources, place[self.cells.pairs[cells] > left[self.cells.language[cells]]])
            cells, place = self.cells.among(sources)
            language, pairs = self.cells.language[cells], self.cells.pairs[cells]
            too_many = _running(language, pairs) > left[language]
            fitting = int(place[too_many].min(initial=len(sources)))
            self.held[sources[:fitting]] = True
            taken = place < fitting
            self.count += np.bincount(language[taken], weights=pairs[taken], minlength=len(left)).astype(np.int64)
            sources = sources[fitting:]


def _running(group: IntArray, values: IntArray) -> IntArray:
    """For each value the sum of its group up to and with it."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(values[order])
    first = np.flatnonzero(np.append(True, group[order][1:] != group[order][:-1])) if len(group) else order
    before = np.append(0, sums)[first]
    result = np.empty_like(values)
    result[order] = sums - np.repeat(before, np.diff(np.append(first, len(group))))
    return result

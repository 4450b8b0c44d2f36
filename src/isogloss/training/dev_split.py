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

Pairs are gone through in stretches, and in memory are those of the *candidates* alone: the sources that come first in the
order, of each language somewhat more than it wants. A language that goes through its candidates and wants more is given
four times as many, and all is chosen again; so what is chosen is what would be chosen among all sources. It ends where the
candidates would have more than `MOST_CANDIDATES` pairs: then a language whose sources hardly ever fit gets less.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from isogloss.corpora.text.hashing import Hashes, among, distinct, mix
from isogloss.training.batches import PairRows
from isogloss.types import BoolArray, IntArray

MOST_TRANSLATIONS = 8
CHUNK = 1024  # sources that are looked at together, at least
AT_ONCE = 1 << 17  # pairs that are gone through together
TIMES, TO_SPARE = 2, 200  # a language's candidates have so many times the pairs it wants, and some to spare
MORE = 4  # times as many if it was short of them
MOST_CANDIDATES = 1 << 20  # pairs
LAST = np.uint64(2**64 - 1)


def split_dev(
    pairs: PairRows, key: Hashes, per_language: int, share: float, seed: int, in_place: bool = False
) -> tuple[PairRows, IntArray, PairRows | None]:
    """The pairs to train on, which of them are still left out, and the dev pairs (None if there are none).

    The pairs to train on are a copy without the dev pairs; `in_place`, they are all pairs, mapped from disk as before, and
    the dev pairs are to be left out when pairs are drawn.
    """
    nothing = np.zeros(0, dtype=np.int64)
    held = hold_out(pairs.source, pairs.target, pairs.language, key, per_language, share, seed) if per_language else nothing
    if not len(held):
        return pairs, nothing, None
    if in_place:
        return pairs, held, pairs.where(held)
    trained = np.ones(len(pairs), dtype=np.bool_)
    trained[held] = False
    return pairs.where(trained), nothing, pairs.where(held)


def hold_out(
    source: IntArray,
    target: IntArray,
    language: IntArray,
    key: Hashes,
    per_language: int,
    share: float,
    seed: int,
) -> IntArray:
    """The numbers of the dev pairs, ascending.

    `source` and `target` are row numbers of sentences, `language` a code from 0, `key` a hash of each source row's text:
    pairs with equal keys stay together, so a hash of letters and digits alone also keeps near copies of a source together.
    """
    pairs = _Pairs(source, target, language, key, seed)
    sizes = pairs.sizes()
    most = np.floor(share * sizes).astype(np.int64)
    wanted = np.minimum(per_language, most)
    reach = np.where(wanted > 0, (TIMES * wanted + TO_SPARE) / np.maximum(sizes, 1), 0)
    while wanted.any():
        bound = np.where(reach >= 1, LAST, (np.minimum(reach, 0.5) * 2.0**64).astype(np.uint64))
        candidates, number = pairs.of_candidates(bound, wanted > 0)
        sets = DevSets.over(candidates.cells(len(sizes)), wanted, most, candidates.known(bound))
        sets.leave_alone(candidates.rank[candidates.itself])
        short = [code for code in np.argsort(sizes, kind="stable").tolist() if wanted[code] and not sets.fill(code)]
        short = [code for code in short if bound[code] != LAST]
        if not short or min(len(source), MORE * len(number)) > MOST_CANDIDATES:
            return number[sets.held[candidates.rank]]
        reach[short] *= MORE
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """All pairs, as columns that may be mapped from disk."""

    source: IntArray
    target: IntArray
    language: IntArray
    key: Hashes
    seed: int

    def sizes(self) -> IntArray:
        """The number of translations in each language."""
        sizes = np.zeros(int(self.language.max(initial=-1)) + 1, dtype=np.int64)
        for part in self._parts():
            spoken = self.language[part][self.source[part] != self.target[part]]
            sizes += np.bincount(spoken, minlength=len(sizes))
        return sizes

    def of_candidates(self, bound: Hashes, wanting: BoolArray) -> tuple["_Candidates", IntArray]:
        """All pairs of the sources that stand up to `bound` in the order of some language that wants pairs, and their numbers.

        Where a source stands is a number that looks random and depends on its text and the seed.
        """
        found = [np.zeros(0, dtype=np.uint64)]
        for part in self._parts():
            place, language = self._place(part), self.language[part]
            near = (place <= bound[language]) & wanting[language] & (self.source[part] != self.target[part])
            found.append(distinct(place[near]))
        order = distinct(np.concatenate(found))
        numbers = [part.start + np.flatnonzero(among(self._place(part), order)) for part in self._parts()]
        number = np.concatenate(numbers)
        rank = np.concatenate([np.searchsorted(order, self._place(some)) for some in _split(number)])
        return _Candidates(order, rank, self.language[number], self.source[number] == self.target[number]), number

    def _parts(self) -> Iterator[slice]:
        for start in range(0, len(self.source), AT_ONCE):
            yield slice(start, start + AT_ONCE)

    def _place(self, which: "slice | IntArray") -> Hashes:
        return mix(self.key[self.source[which]] ^ mix(np.array([self.seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)))


def _split(numbers: IntArray) -> list[IntArray]:
    return np.array_split(numbers, max(1, len(numbers) // AT_ONCE))


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Some sources, in order, and all their pairs: the place of its source, its language, whether it is source text."""

    order: Hashes
    rank: IntArray
    language: IntArray
    itself: BoolArray

    def cells(self, languages: int) -> "Cells":
        """How many pairs each source has in each language."""
        return Cells.of(self.rank[~self.itself], self.language[~self.itself], len(self.order), languages)

    def known(self, bound: Hashes) -> IntArray:
        """For each language, how many of these sources stand up to its bound: so far it has all there are."""
        return np.asarray(np.searchsorted(self.order, bound, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """How many pairs each source has in each language that it has any in; sorted by source, then by language."""

    source: IntArray
    language: IntArray
    pairs: IntArray
    starts: IntArray  # the cells of source s are starts[s] to starts[s + 1]

    @classmethod
    def of(cls, source: IntArray, language: IntArray, sources: int, languages: int) -> Self:
        """Count pairs, given by their source and their language."""
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
    of_language: list[IntArray]  # the sources of each language, in order, as far as all of them are here

    @classmethod
    def over(cls, cells: Cells, wanted: IntArray, most: IntArray, known: IntArray) -> Self:
        """Empty sets, with what each should and may come to hold, and up to which source each language may look."""
        eligible = np.ones(len(cells.starts) - 1, dtype=np.bool_)
        eligible[cells.source[cells.pairs > MOST_TRANSLATIONS]] = False
        by_language = np.argsort(cells.language.astype(np.min_scalar_type(len(most))), kind="stable")
        ends = np.cumsum(np.bincount(cells.language, minlength=len(most)))
        of_language = np.split(cells.source[by_language], ends[:-1])
        of_language = [sources[: np.searchsorted(sources, last)] for sources, last in zip(of_language, known, strict=True)]
        held = np.zeros(len(eligible), dtype=np.bool_)
        return cls(cells, wanted, most, np.zeros_like(most), held, eligible, of_language)

    def leave_alone(self, sources: IntArray) -> None:
        """Never hold these out."""
        self.eligible[sources] = False

    def fill(self, language: int) -> bool:
        """Hold out sources of a language, in order, until it has as many pairs as it wants: whether there were enough."""
        limit = self.most.copy()
        limit[language] = max(self.wanted[language], self.count[language])
        of_language = self.of_language[language]
        candidates = of_language[self.eligible[of_language] & ~self.held[of_language]]
        start = 0
        while start < len(candidates) and self.count[language] < limit[language]:
            stop = start + max(CHUNK, int(limit[language] - self.count[language]))
            self._take(candidates[start:stop], limit)
            start = stop
        return bool(self.count[language] >= limit[language])

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

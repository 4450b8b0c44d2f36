"""Dev pairs: a few pairs per language taken out of the training pairs, to choose a checkpoint and to stop early.

*Source sentences* are chosen, with all their pairs: no translation of a dev sentence is trained on, in any language.

    wanted_l = min(per_language, ⌊share · pairs_l⌋)          for each language l

Languages take turns, from the fewest pairs to the most. Each visits its sources in an order given by a hash of their text and
the seed, and takes those that fit until it has `wanted_l` pairs, including those that came with other languages' sources. A
source fits if afterwards no language has more than ⌊share · pairs_l⌋ dev pairs, and the language whose turn it is has at most
`wanted_l`. So a language with fewer than 1 / share pairs gives none, and the choice does not depend on the order of rows.

Never chosen are sources that are also trained on as source text (a pair of a sentence with itself), and sources with more than
`MOST_TRANSLATIONS` pairs in one language: a "Yes." with hundreds of them would fill a dev set by itself.

Only the pairs of *candidates* are held in memory: for each language the first sources in the order, with somewhat more pairs
than it wants. If a language runs out of candidates, it gets four times as many and the choice starts again, so the result is
that of a choice among all sources. The limit is `MOST_CANDIDATES` pairs; a language whose sources rarely fit may then get less.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isogloss.corpora.text.hashing import Hashes, among, distinct, mix
from isogloss.training.batches import PairRows
from isogloss.types import BoolArray, IntArray

MOST_TRANSLATIONS = 8
AT_ONCE = 1 << 17  # pairs in a block
TIMES, TO_SPARE = 2, 200  # candidates have TIMES · wanted + TO_SPARE pairs
MORE = 4  # times as many, if there were too few
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
        held, short = candidates.choose(sizes, wanted, most, bound)
        if not short or min(len(source), MORE * len(number)) > MOST_CANDIDATES:
            return number[held[candidates.rank]]
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
            translated = self.source[part] != self.target[part]
            sizes += np.bincount(self.language[part][translated], minlength=len(sizes))
        return sizes

    def of_candidates(self, bound: Hashes, wanting: BoolArray) -> tuple["_Candidates", IntArray]:
        """All pairs of the sources up to `bound` in the order of a language that wants pairs, and their numbers."""
        found = [np.zeros(0, dtype=np.uint64)]
        for part in self._parts():
            place, language = self._place(part), self.language[part]
            near = (place <= bound[language]) & wanting[language] & (self.source[part] != self.target[part])
            found.append(distinct(place[near]))
        order = distinct(np.concatenate(found))
        number = np.concatenate([part.start + np.flatnonzero(among(self._place(part), order)) for part in self._parts()])
        blocks = np.array_split(number, max(1, len(number) // AT_ONCE))
        rank = np.concatenate([np.searchsorted(order, self._place(block)) for block in blocks])
        return _Candidates(order, rank, self.language[number], self.source[number] == self.target[number]), number

    def _parts(self) -> Iterator[slice]:
        for start in range(0, len(self.source), AT_ONCE):
            yield slice(start, start + AT_ONCE)

    def _place(self, which: "slice | IntArray") -> Hashes:
        """Where sources stand in the order: a number that looks random and depends on their text and the seed."""
        return mix(self.key[self.source[which]] ^ mix(np.array([self.seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)))


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Sources in order, and all their pairs: the rank of the source, the language, whether the pair is source text twice."""

    order: Hashes
    rank: IntArray
    language: IntArray
    itself: BoolArray

    def choose(self, sizes: IntArray, wanted: IntArray, most: IntArray, bound: Hashes) -> tuple[BoolArray, list[int]]:
        """Which sources are held out, and the languages that ran out of candidates though there are more."""
        cells = self.rank[~self.itself] * len(sizes) + self.language[~self.itself]
        cells, pairs = np.unique(cells, return_counts=True)  # of a source in a language, by source and then by language
        source, language = np.divmod(cells, len(sizes))
        never = np.zeros(len(self.order), dtype=np.bool_)
        never[self.rank[self.itself]] = never[source[pairs > MOST_TRANSLATIONS]] = True
        starts = np.searchsorted(source, np.arange(len(self.order) + 1)).tolist()
        languages, counts = language.tolist(), pairs.tolist()
        known = np.searchsorted(self.order, bound, side="right")  # up to here a language's sources are all candidates
        held, count, short = np.zeros(len(self.order), dtype=np.bool_), [0] * len(sizes), []
        for code in (int(code) for code in np.argsort(sizes, kind="stable") if wanted[code]):
            limit = most.tolist()
            limit[code] = max(int(wanted[code]), count[code])
            mine = source[language == code]
            for rank in mine[(mine < known[code]) & ~never[mine] & ~held[mine]].tolist():
                if count[code] >= limit[code]:
                    break
                brings = range(starts[rank], starts[rank + 1])
                if all(count[languages[cell]] + counts[cell] <= limit[languages[cell]] for cell in brings):
                    held[rank] = True
                    for cell in brings:
                        count[languages[cell]] += counts[cell]
            if count[code] < limit[code] and bound[code] != LAST:
                short.append(code)
        return held, short

"""The sampler: which pairs an epoch has and in which order, by the settings of a recipe's [balance].

`shares` says how many pairs each stratum gives; here they are drawn. Strata are sampled in shuffled passes, so every pair is
seen once before any is seen twice, across epochs too. An order depends on the pairs, the settings, the seed and the epoch
only, so a stopped run continues in the middle of an epoch. Ordering takes about 100 bytes per pair; `sharded` handles more.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.shares import SLACK, Allotment, Portion, Rates, strata_of, tells_languages
from isogloss.corpora.text.arrays import begins_run
from isogloss.corpora.text.hashing import GOLDEN, Hashes, scrambled
from isogloss.types import IntArray

Indices = NDArray[np.signedinteger]  # of 32 bits where that is enough

BLOCK = 1 << 20  # positions shuffled at once if a stratum is small and has many passes
GOLDEN_FRACTION = 0.6180339887498949
UNEVEN = 3  # draws by which strata of equal rates may differ within a shard; in a whole epoch by one


class Sampler:
    """Draws the pairs of each epoch, as indices into the arrays it is made from.

    `source`, `corpus` and `language` are codes from 0, one per pair. What is drawn is a group: a source sentence with its
    translations (of one corpus, or of all if the scheme ignores corpora), at most `max_languages_per_group` of them; or a
    single pair. The pairs of a group are adjacent in the order.
    """

    def __init__(self, source: IntArray, corpus: IntArray, language: IntArray, settings: BalanceSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        strata = strata_of(corpus, language, settings)
        self._allotment = Allotment(strata, settings)
        self._sizes = strata.size
        self._starts = np.cumsum(strata.size) - strata.size
        self._source: IntArray | None = None
        self._units: Units | None = None
        if settings == BalanceSettings(temperature=settings.temperature, group="source"):
            self._source = np.unique(source, return_inverse=True)[1]
            return
        # The pairs by stratum. A place is an index into this array.
        self._pairs: Indices = np.argsort(strata.of_pair, kind="stable").astype(_index_type(len(source)))
        if settings.group == "source":
            unit = source[self._pairs]
            if len(strata) > 1:
                unit += corpus[self._pairs] * (int(unit.max(initial=0)) + 1)
            self._units = Units.of(unit, settings.max_languages_per_group)

    def pairs_in(self, epoch: int) -> int:
        """Number of pairs in an epoch; nearly constant, caps may leave fractions."""
        return int(self._allotment.counts(epoch).sum())

    def order(self, epoch: int, portion: Portion | None = None) -> IntArray:
        """The pairs of an epoch; consecutive pieces of it have the composition of the scheme.

        If these pairs are one shard of several, `portion` says what they give to the epoch.
        """
        if self._source is not None:
            return _sources_in_random_order(self._source, self.seed, epoch)
        whole = self._allotment
        portion = portion or Portion(whole.rates, whole.counts(epoch), whole.before(epoch), self._starts)
        counts, before = portion.counts, portion.before
        places: Indices = np.empty(int(counts.sum()), dtype=self._pairs.dtype)
        visits = np.empty(len(places) if self._units and len(counts) > 1 else 0, dtype=np.int64)
        times = np.empty(len(places) if len(counts) > 1 else 0)
        start = 0
        # If strata take turns, those with one more pair go first, so that turns stay even to the end.
        for stratum in np.argsort(np.floor(portion.rates + SLACK) - counts, kind="stable").tolist():
            here = slice(start, start := start + int(counts[stratum]))
            self._draw(stratum, int(before[stratum]), int(portion.names[stratum]), places[here])
            if len(times):
                times[here] = self._due(stratum, portion, epoch)
            if self._units and len(visits) and tells_languages(self.settings):
                visits[here], moments = self._meetings(self._units, stratum, int(before[stratum]), places[here], epoch)
                times[here][np.argsort(moments, kind="stable")] = times[here].copy()
            elif self._units and len(visits):
                visits[here] = self._visits(self._units, stratum, int(before[stratum]), places[here])
        if len(visits):
            places = places[_together(visits, times, scattered=tells_languages(self.settings))]
        elif len(times):
            places = places[np.argsort(times, kind="stable")]
        order: IntArray = self._pairs[places].astype(np.int64)
        return order

    def _draw(self, stratum: int, start: int, name: int, places: Indices) -> None:
        """The draws of a stratum after the first `start`: draw k is the (k mod n)-th of shuffled pass k // n.

        Passes are shuffled by a hash of the pair's number, which starts at `name`, so another sampler can continue a pass.
        """
        first, size = int(self._starts[stratum]), int(self._sizes[stratum])
        stop = start + len(places)
        everywhere = np.arange(first, first + size)
        at_once = max(1, BLOCK // size)
        for number in range(start // size, -(-stop // size), at_once):
            passes = np.arange(number, min(number + at_once, -(-stop // size)))[:, None]
            what = everywhere - first + name if self._units is None else self._units.visits(everywhere, passes)
            keys = scrambled(what.astype(np.uint64) * GOLDEN + _salt(self.seed, passes))
            shuffled = np.argsort(keys, axis=1, kind="stable").ravel()[max(start - number * size, 0) : stop - number * size]
            begin = max(number * size - start, 0)
            places[begin : begin + len(shuffled)] = shuffled + first

    def _due(self, stratum: int, portion: Portion, epoch: int) -> Rates:
        """When in the epoch each draw of a stratum is due: evenly spaced.

        Strata of equal rates take turns. Others start at different times, so that rare ones do not all come at once.
        """
        count = int(portion.counts[stratum])
        if np.ptp(portion.rates) == 0 and np.ptp(portion.counts) <= UNEVEN:
            return np.arange(count, dtype=np.float64)
        phase = (stratum + epoch * len(self._sizes)) * GOLDEN_FRACTION % 1
        due: Rates = (np.arange(count) + phase) / max(count, 1)
        return due

    def _visits(self, units: "Units", stratum: int, start: int, places: Indices) -> Indices:
        """The group of each draw; a second visit in the epoch has another number than the first."""
        turn = (start % int(self._sizes[stratum]) + np.arange(len(places))) // int(self._sizes[stratum])
        return units.visits(places, turn + start // int(self._sizes[stratum])) + turn * len(self._pairs)

    def _meetings(self, units: "Units", stratum: int, start: int, places: Indices, epoch: int) -> tuple[Indices, Rates]:
        """The group of each draw and its time, if translations of a source are in several strata.

        One language may be drawn once in the epoch, another five times. A source has a random time v; a pair that is drawn m
        times comes at v and at even distances from it, (j + frac(v·m)) / m. So all translations of a source meet at v, pairs
        that are drawn equally often always meet, and no language comes early or late.
        """
        first, size = int(self._starts[stratum]), int(self._sizes[stratum])
        late = np.ones(size, dtype=np.bool_)  # not drawn by the end of the epoch's first pass
        late[places[: size - start % size] - first] = False
        nth = (start % size + np.arange(len(places))) // size - late[places - first]
        often = np.bincount(places - first, minlength=size)[places - first]
        unit = units.visits(places, np.int64(epoch)).astype(np.uint64) * GOLDEN
        moment = (scrambled(unit + _salt(~self.seed, np.array([epoch]))) >> np.uint64(11)) * 2.0**-53
        slot = np.floor(moment * often)
        moments: Rates = np.where(nth == slot, moment, (nth + (moment * often - slot)) / often)
        return scrambled(unit + moments.view(np.uint64)).view(np.int64), moments


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Pairs that share a source, and which of them are drawn together."""

    unit: Indices  # the number of the next unit is higher by the size of this one
    rank: Indices
    size: Indices
    most: int

    @classmethod
    def of(cls, key: IntArray, most: int) -> Self:
        """Pairs with equal keys are a unit; `most` of them (0: all) are drawn together."""
        by_key = np.argsort(key, kind="stable")
        starts = np.flatnonzero(begins_run(key[by_key]))
        sizes = np.diff(np.append(starts, len(key)))
        unit: Indices = np.empty(len(key), dtype=_index_type(len(key)))
        unit[by_key] = np.repeat(starts, sizes)
        if not most:
            return cls(unit, unit, unit, 0)  # rank and size are not used
        rank, size = np.empty_like(unit), np.empty_like(unit)
        rank[by_key] = np.arange(len(key)) - np.repeat(starts, sizes)
        size[by_key] = np.repeat(sizes, sizes)
        return cls(unit, rank, size, most)

    def visits(self, places: Indices, turn: IntArray | np.int64) -> Indices:
        """The group of each pair; `turn` changes which translations are together."""
        if not self.most:
            return self.unit[places]
        return self.unit[places] + (self.rank[places] + turn) % self.size[places] // self.most


def _together(visits: IntArray, times: Rates, scattered: bool) -> IntArray:
    """An order that keeps the pairs of a group together, at the time of its first pair."""
    if scattered:
        gathered = np.argsort(visits, kind="stable")
        return gathered[_together(visits[gathered], times[gathered], scattered=False)]
    first = np.flatnonzero(begins_run(visits))
    due = np.repeat(times[first], np.diff(np.append(first, len(visits))))
    return np.argsort(due, kind="stable")


def _index_type(count: int) -> type[np.signedinteger]:
    """The smaller type that holds indices below `count`."""
    return np.int32 if count < 2**31 else np.int64


def _sources_in_random_order(source: IntArray, seed: int, epoch: int) -> IntArray:
    """Every pair once, sources in random order: the default, unchanged so that old runs give equal weights."""
    random = np.random.default_rng([seed, epoch])
    place = random.permutation(int(source.max(initial=-1)) + 1)[source]  # the position of each pair's source
    order: IntArray = np.lexsort((random.random(len(source)), place))
    return order


def _salt(seed: int, passes: IntArray) -> Hashes:
    """A random number for each pass, so that any pass can be shuffled on its own."""
    return scrambled(scrambled(np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)) + passes.astype(np.uint64) * GOLDEN)

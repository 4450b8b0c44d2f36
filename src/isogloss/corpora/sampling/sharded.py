"""Epochs of any number of pairs: too many to order at once are divided into shards.

An epoch visits the shards in random order; `balance` orders the pairs of a shard. Only one shard's order is in memory; the
shard of each pair (a byte or two) is in a memory-mapped temporary file. The numbers of `shares` hold for whole epochs:

- Single pairs: the pairs of a stratum are dealt in turn, so all shards have equally many, give or take one. Small strata are in
  every shard, and their passes continue from shard to shard.
- Groups: a hash of the source decides the shard, so all pairs of a source are in the same one. Draws are divided by the
  stratum's actual size in each shard.

Pairs are seen once before any is seen twice, except across shards that the epoch has and has not visited yet. With a single
shard, orders are those of `Sampler`.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import numpy as np
from numpy.typing import NDArray

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.balance import Sampler
from isogloss.corpora.sampling.shares import Allotment, Portion, Strata, divided, strata_of
from isogloss.corpora.text.hashing import GOLDEN, scrambled
from isogloss.memory import trim
from isogloss.storage import explaining_disk
from isogloss.types import IntArray

SHARD = 1 << 17  # pairs that are ordered at once
IN_EVERY_SHARD = 4  # small strata may together take 1/4 of a shard
AT_ONCE = 1 << 16  # pairs that are processed at once
WORTH_TRIMMING = 1 << 14  # pairs; above this, memory is released after ordering


class ShardedSampler:
    """The orders of all epochs, in one part per shard.

    `source`, `corpus` and `language` are codes from 0, one per pair; they may be memory-mapped. `left_out` are the ascending
    numbers of pairs that are never drawn.
    """

    def __init__(
        self,
        source: IntArray,
        corpus: IntArray,
        language: IntArray,
        settings: BalanceSettings,
        seed: int,
        left_out: IntArray | None = None,
        shard: int = SHARD,
    ) -> None:
        self._columns = source, corpus, language
        self._left_out = np.zeros(0, dtype=np.int64) if left_out is None else left_out
        self.settings, self.seed = settings, seed
        self.shards = max(1, -(-(len(source) - len(self._left_out)) // shard))
        self._only = self._sampler(0) if self.shards == 1 else None  # of several shards, each is used once per epoch
        self._drawn = lru_cache(maxsize=2)(self._count_draws)
        if self.shards > 1:
            self._languages = int(language.max(initial=0)) + 1
            of_cell, strata = self._strata()
            self._allotment = Allotment(strata, settings)
            self._starts = np.cumsum(strata.size) - strata.size
            self._everywhere = self._small(strata.size, shard)
            self._shard_of, self._sizes = self._deal(of_cell, len(strata))

    def lengths(self, epoch: int) -> IntArray:
        """How many pairs each part of an epoch has."""
        if self._only is not None:
            return np.array([self._only[1].pairs_in(epoch)], dtype=np.int64)
        return np.asarray(self._drawn(epoch)[0].sum(axis=0)[self._turns(epoch)])

    def order(self, epoch: int, part: int) -> IntArray:
        """The numbers of the pairs in a part of an epoch, in order."""
        shard = int(self._turns(epoch)[part])
        members, sampler = self._only or self._sampler(shard)
        order = members[sampler.order(epoch, self._portion(epoch, shard) if self.shards > 1 else None)]
        del members, sampler
        if len(order) >= WORTH_TRIMMING:
            trim()
        return order

    def _turns(self, epoch: int) -> IntArray:
        """The shards in the order of an epoch."""
        return np.random.default_rng([self.seed, epoch]).permutation(self.shards)

    def _sampler(self, shard: int) -> tuple[IntArray, Sampler]:
        """The numbers of a shard's pairs, and their sampler."""
        if self.shards > 1:
            found = (start + np.flatnonzero((some == shard) | (some == self.shards)) for start, some in _pieces(self._shard_of))
            members = np.concatenate(list(found))
        else:
            members = np.delete(np.arange(len(self._columns[0])), self._left_out)
        source, corpus, language = (column[members] for column in self._columns)
        return members, Sampler(source, corpus, language, self.settings, self.seed)

    def _strata(self) -> tuple[NDArray[np.integer], Strata]:
        """The stratum of each `_cell`, and the strata of all pairs that are drawn."""
        cells = self._languages * (int(self._columns[1].max(initial=0)) + 1)
        pairs = np.zeros(cells, dtype=np.int64)
        for _, _, places in self._kept():
            pairs += np.bincount(self._cell(places), minlength=cells)
        there = np.flatnonzero(pairs)
        strata = strata_of(there // self._languages, there % self._languages, self.settings, pairs[there])
        of_cell = np.zeros(cells, dtype=strata.of_pair.dtype)
        of_cell[there] = strata.of_pair
        return of_cell, strata

    def _cell(self, places: IntArray) -> IntArray:
        return self._columns[1][places] * self._languages + self._columns[2][places]

    def _kept(self) -> Iterator[tuple[int, int, IntArray]]:
        """The numbers of the pairs that are drawn, in stretches with their bounds."""
        for start, some in _pieces(self._columns[0]):
            first, last = np.searchsorted(self._left_out, [start, start + len(some)])
            yield start, start + len(some), start + np.delete(np.arange(len(some)), self._left_out[first:last] - start)

    def _small(self, sizes: IntArray, shard: int) -> NDArray[np.bool_]:
        """The strata that are in every shard: the smallest, while there is room."""
        small = np.zeros(len(sizes), dtype=np.bool_)
        if self.settings.group == "pair":  # with groups, translations of a source must meet
            by_size = np.argsort(sizes, kind="stable")
            small[by_size] = np.cumsum(sizes[by_size]) <= shard // IN_EVERY_SHARD
        return small

    def _deal(self, of_cell: NDArray[np.integer], strata: int) -> tuple[NDArray[np.unsignedinteger], IntArray]:
        """The shard of each pair, and the size of each stratum in each shard.

        The number after the last shard means every shard, the one after that none.
        """
        kind = np.min_scalar_type(self.shards + 1)
        sizes = np.zeros((strata, self.shards + 1), dtype=np.int64)
        salt = scrambled(np.array([self.seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64))
        with explaining_disk(Path(gettempdir())), TemporaryFile(prefix="isogloss-") as file:
            for start, stop, places in self._kept():
                stratum = of_cell[self._cell(places)]
                if self.settings.group == "source":
                    number = self._columns[0][places].astype(np.uint64)
                    shard = scrambled(number * GOLDEN + salt) % np.uint64(self.shards)
                else:  # in rounds over all shards; each round starts elsewhere
                    turn = _counted_on(stratum, sizes.sum(axis=1)).astype(np.uint64)
                    round_ = turn // np.uint64(self.shards) * np.uint64(strata) + stratum.astype(np.uint64)
                    shard = (turn + scrambled(round_ * GOLDEN + salt) % np.uint64(self.shards)) % np.uint64(self.shards)
                shard = np.where(self._everywhere[stratum], self.shards, shard.astype(np.int64))
                dealt = np.full(stop - start, self.shards + 1, dtype=kind)
                dealt[places - start] = shard
                file.write(dealt.tobytes())  # not through a mapping: a full disk would crash the process
                sizes += np.bincount(stratum * np.int64(self.shards + 1) + shard, minlength=sizes.size).reshape(sizes.shape)
            file.flush()
            shard_of = np.asarray(np.memmap(file, kind, "r"))  # outlives the file's name and handle
        return shard_of, sizes[:, : self.shards]

    def _count_draws(self, epoch: int) -> tuple[IntArray, IntArray]:
        """The draws of an epoch per stratum and shard, and those before it (strata × shards)."""
        before, after = (divided(self._allotment.before(number), self._sizes) for number in (epoch, epoch + 1))
        counts = after - before
        small = self._everywhere
        turn = np.argsort(self._turns(epoch))
        given = self._allotment.counts(epoch)[small, None]
        begun, ended = given * turn // self.shards, given * (turn + 1) // self.shards
        counts[small], before[small] = ended - begun, self._allotment.before(epoch)[small, None] + begun
        return counts, before

    def _portion(self, epoch: int, shard: int) -> Portion:
        """The draws of a shard in an epoch, for the strata that it has."""
        counts, before = self._drawn(epoch)
        earlier = self._starts + self._sizes[:, :shard].sum(axis=1)
        there = (self._sizes[:, shard] > 0) | self._everywhere
        return Portion(self._allotment.rates[there], counts[there, shard], before[there, shard], earlier[there])


def _pieces(values: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.integer]]]:
    """An array in stretches, each with its first index."""
    for start in range(0, len(values), AT_ONCE):
        yield start, values[start : start + AT_ONCE]


def _counted_on(groups: NDArray[np.integer], already: IntArray) -> IntArray:
    """The running number of each value within its group, after those `already` counted."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=len(already))
    number: IntArray = already[groups]
    number[order] += np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return number

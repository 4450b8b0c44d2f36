"""How many pairs each corpus and language gives to an epoch: the formulas of docs/balance.md with arrays.

A stratum is a part of the pairs that is sampled on its own: a corpus, or a corpus in one language if the scheme or a cap is by
language. `balance` draws from the strata; `sharded` divides the draws over shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isogloss.config import BalanceSettings
from isogloss.types import IntArray

Rates = NDArray[np.float64]

SLACK = 1e-6  # tolerance for rounding: far below one pair, far above float64 errors


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """The stratum of each pair, and the corpus, language and size of each stratum.

    If strata do not distinguish languages (or corpora), that code is 0.
    """

    of_pair: NDArray[np.integer]
    corpus: IntArray
    language: IntArray
    size: IntArray

    def __len__(self) -> int:
        return len(self.size)


def strata_of(corpus: IntArray, language: IntArray, settings: BalanceSettings, pairs: IntArray | None = None) -> Strata:
    """Divide pairs as coarsely as the settings allow, since groups are drawn within a stratum.

    With `pairs`, a row stands for that many pairs.
    """
    capped = settings.cap_corpus or settings.cap_language or settings.cap_corpus_language
    corpus = corpus if settings.scheme != "everything" or capped else np.zeros_like(corpus)
    language = language if tells_languages(settings) else np.zeros_like(language)
    languages = int(language.max(initial=0)) + 1
    cell = corpus * languages + language
    sizes = np.bincount(cell, pairs).astype(np.int64)
    present = np.flatnonzero(sizes)
    number = np.zeros(len(sizes), dtype=np.min_scalar_type(len(present)))  # a small type: there is one per pair
    number[present] = np.arange(len(present))
    return Strata(number[cell], present // languages, present % languages, sizes[present])


def tells_languages(settings: BalanceSettings) -> bool:
    """Whether strata are by language, so that translations of a source are in several of them."""
    return settings.scheme in ("languages", "datasets") or bool(settings.cap_language or settings.cap_corpus_language)


def rates_of(strata: Strata, settings: BalanceSettings) -> Rates:
    """Average pairs per epoch of each stratum.

    Caps come first (a capped corpus counts as one of that size), then the scheme, then caps again, since a scheme may repeat
    pairs: an epoch becomes shorter rather than breaking a cap.
    """
    available = _capped(strata.size.astype(np.float64), strata, settings)
    length = settings.pairs_per_epoch or int(available.sum() + SLACK)
    return _capped(length * _shares(available, strata, settings), strata, settings)


def _shares(available: Rates, strata: Strata, settings: BalanceSettings) -> Rates:
    """Each stratum's share of an epoch; they add up to 1."""
    share: Rates
    if settings.scheme == "corpora":
        of_corpus = np.bincount(strata.corpus, available)
        share = available / of_corpus[strata.corpus] / np.count_nonzero(of_corpus)
    elif settings.scheme == "languages":
        of_language = np.bincount(strata.language, available)
        flattened = of_language ** (1 / settings.temperature)
        share = (flattened / flattened.sum())[strata.language] * (available / of_language[strata.language])
    elif settings.scheme == "datasets":
        share = np.full(len(strata), 1 / max(len(strata), 1))
    else:
        share = available / max(available.sum(), 1)
    return share


def _capped(rates: Rates, strata: Strata, settings: BalanceSettings) -> Rates:
    """Scale down what is above a cap. Each step only lowers, so earlier caps still hold."""
    for codes, cap in _caps(strata, settings):
        total = np.bincount(codes, rates)
        rates = rates * np.minimum(1, cap / np.maximum(total, 1e-300))[codes]
    return rates


def _caps(strata: Strata, settings: BalanceSettings) -> list[tuple[IntArray, int]]:
    """The caps that are set, each with the codes it applies to."""
    caps = [
        (np.arange(len(strata)), settings.cap_corpus_language),
        (strata.corpus, settings.cap_corpus),
        (strata.language, settings.cap_language),
    ]
    return [(codes, cap) for codes, cap in caps if cap]


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """The draws of strata in one epoch, or in a shard of it.

    `rates` are per whole epoch, `before` the draws until then. Pairs are shuffled by numbers that are consecutive within a
    stratum; `names` has the first of each.
    """

    rates: Rates
    counts: IntArray
    before: IntArray
    names: IntArray


class Allotment:
    """Whole pairs per stratum and epoch; without caps, the sum over epochs is within one pair of the rate.

    A stratum gets its rate rounded down, and one more pair when its fractions add up: a corpus with a rate of a third is seen
    every third epoch. The stratum that would soonest be owed a whole pair comes first; taking the largest debt first would
    starve slow ones under caps. Epochs are counted from the first; 1,000 epochs of 1,000 strata take a second.
    """

    def __init__(self, strata: Strata, settings: BalanceSettings) -> None:
        self.rates = rates_of(strata, settings)
        self.whole = np.floor(self.rates + SLACK).astype(np.int64)
        self._fraction = np.where(self.rates - self.whole > SLACK, self.rates - self.whole, 0)
        self._caps = _caps(strata, settings)
        self._owed = np.zeros(len(strata))
        self._counts: list[IntArray] = []
        self._before: list[IntArray] = [np.zeros(len(strata), dtype=np.int64)]

    def counts(self, epoch: int) -> IntArray:
        """Pairs of each stratum in this epoch."""
        while len(self._counts) <= epoch:
            self._counts.append(self._next())
            self._before.append(self._before[-1] + self._counts[-1])
        return self._counts[epoch]

    def before(self, epoch: int) -> IntArray:
        """Pairs of each stratum in all epochs before this one."""
        self.counts(epoch)
        return self._before[epoch]

    def _next(self) -> IntArray:
        counts = self.whole.copy()
        self._owed += self._fraction
        spare = int(self._owed.sum() + SLACK)
        rooms = [(codes, cap - np.bincount(codes, counts).astype(np.int64)) for codes, cap in self._caps]
        waiting = np.flatnonzero(self._owed > SLACK)
        due_in = (1 - self._owed[waiting]) / self._fraction[waiting]
        for stratum in waiting[np.argsort(due_in, kind="stable")]:
            if spare and all(room[codes[stratum]] > 0 for codes, room in rooms):
                counts[stratum] += 1
                self._owed[stratum] -= 1
                spare -= 1
                for codes, room in rooms:
                    room[codes[stratum]] -= 1
        return counts


def divided(draws: IntArray, sizes: IntArray) -> IntArray:
    """Divide the first `draws` draws from each stratum over shards with `sizes` (strata × shards).

    A whole pass takes `sizes`. The rest is divided by Webster's method: the next draw goes to the shard with the lowest
    (taken + ½) / size. Unlike rounding, one more draw never takes one away from another shard, so the draws of an epoch are
    a difference, and no shard is ahead by more than about a pair.
    """
    total = np.maximum(sizes.sum(axis=1), 1)
    passes, left = np.divmod(draws, total)
    shards = sizes.shape[1]
    safely = np.maximum(left - shards / 2 - SLACK, 0) / total  # up to here, at most half a pair per shard is rounded up
    taken = np.floor(safely[:, None] * sizes + 0.5 - SLACK).astype(np.int64)
    missing = left - taken.sum(axis=1)
    while missing.any():
        due = np.where(sizes > 0, (taken + 0.5) / np.maximum(sizes, 1), np.inf).argmin(axis=1)
        waiting = np.flatnonzero(missing)
        taken[waiting, due[waiting]] += 1
        missing[waiting] -= 1
    fallen: IntArray = passes[:, None] * sizes + taken
    return fallen


@dataclass(frozen=True, slots=True)
class Share:
    """One corpus in one language: its pairs, and its average draws per epoch."""

    corpus: str
    language: str
    pairs: int
    per_epoch: float

    @property
    def passes(self) -> float:
        """Passes per epoch: above 1 pairs repeat, below 1 some wait for the next epoch."""
        return self.per_epoch / self.pairs


def plan(pairs: Mapping[tuple[str, str], int], settings: BalanceSettings) -> tuple[Share, ...]:
    """What an epoch draws from each corpus in each language; `pairs` is `PairCounts.of_split()`."""
    cells = sorted(cell for cell, number in pairs.items() if number)
    size = np.array([pairs[cell] for cell in cells], dtype=np.int64)
    corpus, language = (np.unique([cell[place] for cell in cells], return_inverse=True)[1] for place in (0, 1))
    strata = strata_of(corpus, language, settings, size)
    per_epoch = rates_of(strata, settings)[strata.of_pair] * size / strata.size[strata.of_pair]
    return tuple(Share(*cell, pairs[cell], drawn) for cell, drawn in zip(cells, per_epoch.tolist(), strict=True))

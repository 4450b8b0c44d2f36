"""How many pairs each corpus and language gives to an epoch: the formulas of docs/balance.md, as arrays.

A stratum is a part of the pairs that is drawn from on its own: a corpus, or a corpus in one language where a scheme or a
cap looks at languages. `balance` draws from the strata what is allotted here; where there are more pairs than it can order
at once, `dealing` divides what is allotted over its shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isogloss.config import BalanceSettings
from isogloss.types import IntArray

Rates = NDArray[np.float64]

SLACK = 1e-6  # what rounding may add to a sum of shares: far below one pair, far above the error of float64


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """The strata of some pairs: which one each pair is in, and for each its corpus, language and size.

    Where strata do not tell languages (or corpora) apart, all have the code 0 there.
    """

    of_pair: NDArray[np.integer]
    corpus: IntArray
    language: IntArray
    size: IntArray

    def __len__(self) -> int:
        """Number of strata."""
        return len(self.size)


def strata_of(corpus: IntArray, language: IntArray, settings: BalanceSettings, pairs: IntArray | None = None) -> Strata:
    """Divide pairs as coarsely as the settings allow, since a source's translations are drawn whole within a stratum.

    Codes count from 0; those that no pair has cost nothing. With `pairs`, a row stands for that many pairs.
    """
    corpus = corpus if _tells_corpora(settings) else np.zeros_like(corpus)
    language = language if tells_languages(settings) else np.zeros_like(language)
    languages = int(language.max(initial=0)) + 1
    cell = corpus * languages + language
    sizes = np.bincount(cell, pairs).astype(np.int64)
    present = np.flatnonzero(sizes)
    number = np.zeros(len(sizes), dtype=np.min_scalar_type(len(present)))  # as small as it goes: it is kept for every pair
    number[present] = np.arange(len(present))
    return Strata(number[cell], present // languages, present % languages, sizes[present])


def tells_languages(settings: BalanceSettings) -> bool:
    """Whether strata are parted by language, so that translations of one source are drawn from several of them."""
    return settings.scheme in ("languages", "datasets") or bool(settings.cap_language or settings.cap_corpus_language)


def _tells_corpora(settings: BalanceSettings) -> bool:
    return settings.scheme != "everything" or bool(settings.cap_corpus or settings.cap_language or settings.cap_corpus_language)


# ── pairs an epoch ──────────────────────────────────────────────────────────────────────────────────────────────────────


def rates_of(strata: Strata, settings: BalanceSettings) -> Rates:
    """Pairs an epoch that each stratum should give on average; caps hold for every corpus and language.

    Caps come first (a capped corpus counts as one of that size), then the scheme, then caps again, for what a scheme
    repeats: a cap is a promise, so the epoch becomes shorter rather than breaking it.
    """
    available = _capped(strata.size.astype(np.float64), strata, settings)
    length = settings.pairs_per_epoch or int(available.sum() + SLACK)
    return _capped(length * _shares(available, strata, settings), strata, settings)


def _shares(available: Rates, strata: Strata, settings: BalanceSettings) -> Rates:
    """Each stratum's part of an epoch, by the scheme; they add up to 1."""
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
    """Scale down what is above a cap. Each step only lowers, so the caps of the steps before still hold."""
    for codes, cap in _caps(strata, settings):
        total = np.bincount(codes, rates)
        rates = rates * np.minimum(1, cap / np.maximum(total, 1e-300))[codes]
    return rates


def _caps(strata: Strata, settings: BalanceSettings) -> list[tuple[IntArray, int]]:
    """The caps that are set, each with the codes of the parts that it limits."""
    caps = [
        (np.arange(len(strata)), settings.cap_corpus_language),
        (strata.corpus, settings.cap_corpus),
        (strata.language, settings.cap_language),
    ]
    return [(codes, cap) for codes, cap in caps if cap]


# ── whole pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """What the strata of some pairs give to one epoch, or to a part of it.

    `rates` are those of whole epochs, `before` what was drawn from these pairs until then. Pairs have names that shuffling
    goes by, those of a stratum in a row; `names` has the first of each.
    """

    rates: Rates
    counts: IntArray
    before: IntArray
    names: IntArray


class Allotment:
    """Whole pairs for each stratum and epoch; without caps, all epochs so far are within one pair of the rate.

    A stratum gets its rate rounded down, and one pair more now and then for the fractions it is owed, the most urgent
    first: so a corpus that deserves a third of a pair is seen every third epoch. Urgent is what would soonest be owed a
    whole pair: the largest debt first would let a slow one starve where caps leave debts unpaid. Epochs are counted
    through from the first; a thousand of them over a thousand strata take a second.
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
        """Pairs that each stratum gives to this epoch."""
        while len(self._counts) <= epoch:
            self._counts.append(self._next())
            self._before.append(self._before[-1] + self._counts[-1])
        return self._counts[epoch]

    def before(self, epoch: int) -> IntArray:
        """Pairs that each stratum gave to all epochs before this one."""
        self.counts(epoch)
        return self._before[epoch]

    def portion(self, epoch: int, names: IntArray) -> Portion:
        """The whole of an epoch."""
        return Portion(self.rates, self.counts(epoch), self.before(epoch), names)

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
    """How many of the first `draws` draws from each stratum fall to each shard, of which `sizes` (strata × shards) tells.

    A pass goes once through every shard, so it takes `sizes`. What is begun of the next is divided by Webster's method: the
    next draw falls to the shard with the lowest (taken + ½) / size. Unlike rounding, it never takes a draw back when there
    is one more, so the draws between two epochs are a difference, and no shard is ever ahead by more than a pair or so.
    """
    total = np.maximum(sizes.sum(axis=1), 1)
    passes, left = np.divmod(draws, total)
    shards = sizes.shape[1]
    safely = np.maximum(left - shards / 2 - SLACK, 0) / total  # so far along, at most half a pair a shard is rounded up
    taken = np.floor(safely[:, None] * sizes + 0.5 - SLACK).astype(np.int64)
    missing = left - taken.sum(axis=1)
    while missing.any():
        due = np.where(sizes > 0, (taken + 0.5) / np.maximum(sizes, 1), np.inf).argmin(axis=1)
        waiting = np.flatnonzero(missing)
        taken[waiting, due[waiting]] += 1
        missing[waiting] -= 1
    fallen: IntArray = passes[:, None] * sizes + taken
    return fallen


# ── for people ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Share:
    """One corpus in one language: the pairs it has, and how many an epoch draws from it on average."""

    corpus: str
    language: str
    pairs: int
    per_epoch: float

    @property
    def passes(self) -> float:
        """How often an epoch goes through it: above 1 it is repeated, below 1 a part waits for the next epoch."""
        return self.per_epoch / self.pairs


def plan(pairs: Mapping[tuple[str, str], int], settings: BalanceSettings) -> tuple[Share, ...]:
    """What an epoch draws from each corpus in each language, from the numbers of their pairs alone.

    `pairs` maps (corpus, language) to a number, as a store's manifest has it or `balance.counted` counts it.
    """
    cells = sorted(cell for cell, number in pairs.items() if number)
    corpora = {name: code for code, name in enumerate(dict.fromkeys(name for name, _ in cells))}
    languages = {name: code for code, name in enumerate(dict.fromkeys(name for _, name in cells))}
    size = np.array([pairs[cell] for cell in cells], dtype=np.int64)
    corpus = np.array([corpora[name] for name, _ in cells], dtype=np.int64)
    language = np.array([languages[name] for _, name in cells], dtype=np.int64)
    strata = strata_of(corpus, language, settings, size)
    per_epoch = rates_of(strata, settings)[strata.of_pair] * size / strata.size[strata.of_pair]
    return tuple(Share(*cell, pairs[cell], drawn) for cell, drawn in zip(cells, per_epoch.tolist(), strict=True))

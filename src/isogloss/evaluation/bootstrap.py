"""How sure a score is: the same measure on thousands of test sets drawn, with replacement, from the one there is.

A `Sample` is what a score is computed from, row by row. Drawing rows of two models together keeps what they have in common
(hard sentences are hard for both), so small differences can be told from chance (the paired bootstrap, Efron & Tibshirani
1993). Nothing is drawn as rows: a draw is how often each row was drawn, and every measure here can be computed from that.

`compare` turns the draws into intervals and differences.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import IsoglossError
from isogloss.evaluation.metrics import Doubles, pearson, spearman
from isogloss.types import FloatArray, IntArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 100  # draws; always as many, so that the rows of a unit are drawn alike whatever they are drawn with
Counts = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sums:
    """A measure that follows from sums over rows: an accuracy, an F1.

    `unit` names what the rows are. Samples of one unit and length are drawn alike: the same pairs in two languages, or the
    answers of two models.
    """

    columns: Doubles  # one row a sentence or pair, one column a sum
    measure: Callable[[Doubles], Doubles]  # sums (draws × columns) to values (draws)
    unit: str

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.columns)

    def value(self) -> float:
        """The measure on the rows as they are."""
        return float(self.measure(self.columns.sum(axis=0, keepdims=True))[0])


@dataclass(frozen=True, eq=False)
class Correlation:
    """The correlation of a model's similarities with gold scores: of their ranks (Spearman), or of themselves (Pearson)."""

    scores: Doubles
    gold: Doubles
    unit: str
    ranked: bool = True

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.scores)

    def value(self) -> float:
        """The correlation on the pairs as they are."""
        return spearman(self.scores, self.gold) if self.ranked else pearson(self.scores, self.gold)


@dataclass(frozen=True, eq=False)
class Average:
    """The plain mean of other measures, each drawn on its own rows: every language counts the same."""

    parts: "tuple[Sample, ...]"

    @property
    def unit(self) -> str:
        """The units of its parts."""
        return " ".join(part.unit for part in self.parts)

    def __len__(self) -> int:
        """Number of rows, of all parts."""
        return sum(map(len, self.parts))

    def value(self) -> float:
        """The mean of the parts' values."""
        return float(np.mean([part.value() for part in self.parts]))


@dataclass(frozen=True, eq=False)
class Difference:
    """One measure minus another, drawn on the same rows where their units are the same."""

    left: "Sample"
    right: "Sample"

    @property
    def unit(self) -> str:
        """The units of both."""
        return f"{self.left.unit} {self.right.unit}"

    def __len__(self) -> int:
        """Number of rows of the left one."""
        return len(self.left)

    def value(self) -> float:
        """The difference of the values."""
        return self.left.value() - self.right.value()


@dataclass(frozen=True, eq=False)
class Joined:
    """One correlation over the pairs of several sets thrown together; drawn set by set, so that each keeps its size."""

    parts: tuple[Correlation, ...]

    @property
    def unit(self) -> str:
        """The units of its parts."""
        return " ".join(part.unit for part in self.parts)

    def __len__(self) -> int:
        """Number of pairs, of all parts."""
        return sum(map(len, self.parts))

    def whole(self) -> Correlation:
        """All pairs as one set."""
        scores, gold = (np.concatenate([getattr(part, name) for part in self.parts]) for name in ("scores", "gold"))
        return Correlation(scores, gold, self.unit, self.parts[0].ranked)

    def value(self) -> float:
        """The correlation over all pairs."""
        return self.whole().value()


@dataclass(frozen=True, eq=False)
class Fixed:
    """A number that somebody else computed: nothing can be drawn from it."""

    number: float
    unit: str
    rows: int = 0

    def __len__(self) -> int:
        """Number of rows it was computed from, where that is known."""
        return self.rows

    def value(self) -> float:
        """The number."""
        return self.number


Sample = Sums | Correlation | Joined | Average | Difference | Fixed


def share(hits: NDArray[np.generic], unit: str) -> Sums:
    """The mean of values, one a row: an accuracy, where they are hits."""
    rows = np.column_stack([hits.astype(np.float64), np.ones(len(hits))])
    return Sums(rows, lambda sums: sums[:, 0] / sums[:, 1], unit)


def f1(right: IntArray, found: IntArray, wanted: IntArray, unit: str) -> Sums:
    """F1 from counts a row: how many of what was found for it is right, was found, and should have been."""
    columns = np.column_stack([right, found, wanted]).astype(np.float64)
    return Sums(columns, lambda sums: 2 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1), unit)


class Interval(NamedTuple):
    """Where a value lies with 95 % confidence."""

    low: float
    high: float


def can_be_drawn(sample: Sample) -> bool:
    """Whether its rows are known, so that it can be said how sure it is."""
    parts: tuple[Sample, ...] = ()
    if isinstance(sample, Average):
        parts = sample.parts
    elif isinstance(sample, Difference):
        parts = (sample.left, sample.right)
    return not isinstance(sample, Fixed) and all(map(can_be_drawn, parts))


def interval(draws: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of the draws."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def draw(samples: Sequence[Sample], seed: int = 0, resamples: int = RESAMPLES) -> Doubles:
    """Values of `samples` (one a model, of the same test set) on the same drawn rows: one line a sample."""
    return Draws(seed, resamples).of(samples)


class Draws:
    """Draws of many samples. What is part of several averages is drawn once.

    The rows that are drawn depend on the seed, the unit and the number of rows, and on nothing else: not on which models
    are compared, nor in which order.
    """

    def __init__(self, seed: int = 0, resamples: int = RESAMPLES) -> None:
        self.seed, self.resamples = seed, resamples
        self._known: dict[tuple[Sample, ...], Doubles] = {}

    def of(self, samples: Sequence[Sample]) -> Doubles:
        """Values of samples of the same test set, one a model: one line a sample."""
        first, key = samples[0], tuple(samples)
        if any(type(one) is not type(first) or one.unit != first.unit or len(one) != len(first) for one in samples):
            raise IsoglossError(
                "scores of different test sets cannot be drawn together", hint="compare models on the same data"
            )
        if key not in self._known:
            self._known[key] = self._drawn(first, samples)
        return self._known[key]

    def _drawn(self, first: Sample, samples: Sequence[Sample]) -> Doubles:
        if isinstance(first, Fixed):
            return np.array([[one.value()] * self.resamples for one in samples])
        if isinstance(first, Average):
            together = zip(*(one.parts for one in samples if isinstance(one, Average)), strict=True)
            total = np.zeros((len(samples), self.resamples))
            for parts in together:
                total += self.of(parts)
            return total / len(first.parts)
        if isinstance(first, Difference):
            both = [(one.left, one.right) for one in samples if isinstance(one, Difference)]
            return self.of([left for left, _ in both]) - self.of([right for _, right in both])
        if isinstance(first, Sums):
            return _sums([one for one in samples if isinstance(one, Sums)], self.seed, self.resamples)
        parts = first.parts if isinstance(first, Joined) else (first,)
        whole = [one.whole() if isinstance(one, Joined) else one for one in samples if isinstance(one, Joined | Correlation)]
        return _correlations(whole, [(part.unit, len(part)) for part in parts], self.seed, self.resamples)


def _generator(unit: str, seed: int) -> np.random.Generator:
    named = hashlib.blake2b(unit.encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(named, "little")])


def _counts(rows: int, unit: str, seed: int, resamples: int) -> Iterator[tuple[int, Counts]]:
    """How often each row was drawn, some draws at a time: the place of the first, and one line a draw."""
    generator = _generator(unit, seed)
    for start in range(0, resamples, DRAWN_AT_ONCE):
        draws = min(DRAWN_AT_ONCE, resamples - start)
        drawn = generator.integers(0, rows, (draws, rows), dtype=np.int32)
        drawn += (np.arange(draws, dtype=np.int32) * rows)[:, None]
        yield start, np.bincount(drawn.ravel(), minlength=draws * rows).reshape(draws, rows).astype(np.float32)


def _sums(samples: Sequence[Sums], seed: int, resamples: int) -> Doubles:
    values = np.empty((len(samples), resamples))
    columns = np.concatenate([one.columns for one in samples], axis=1)
    ends = np.cumsum([0, *(one.columns.shape[1] for one in samples)])
    for start, counts in _counts(len(columns), samples[0].unit, seed, resamples):
        sums = counts.astype(np.float64) @ columns
        for row, one in enumerate(samples):
            values[row, start : start + len(counts)] = one.measure(sums[:, ends[row] : ends[row + 1]])
    return values


def _correlations(samples: Sequence[Correlation], parts: Sequence[tuple[str, int]], seed: int, resamples: int) -> Doubles:
    """Correlations of samples that consist of `parts` (unit and number of rows), one after the other."""
    values = np.empty((len(samples), resamples))
    scores = [_Side(one.scores, one.ranked) for one in samples]
    known: dict[int, _Side] = {id(one.gold): _Side(one.gold, one.ranked) for one in samples}
    streams = zip(*(_counts(rows, unit, seed, resamples) for unit, rows in parts), strict=True)
    for blocks in streams:
        start, counts = blocks[0][0], np.concatenate([block for _, block in blocks], axis=1)
        golds = {name: side.deviations(counts) for name, side in known.items()}
        for row, one in enumerate(samples):
            own, gold = scores[row].deviations(counts), golds[id(one.gold)]
            shared = np.einsum("dr,dr,dr->d", counts, own, gold, dtype=np.float64)
            spread = np.einsum("dr,dr,dr->d", counts, own, own) * np.einsum("dr,dr,dr->d", counts, gold, gold)
            roots = np.sqrt(spread.astype(np.float64))
            values[row, start : start + len(counts)] = np.divide(shared, roots, out=np.zeros_like(roots), where=roots > 0)
    return values


class _Side:
    """One of the two things that are correlated, ready to be ranked again for every draw."""

    def __init__(self, values: Doubles, ranked: bool) -> None:
        self.ranked = ranked
        centred = values - values.mean()
        self.values = (centred / max(np.abs(centred).max(initial=0.0), np.finfo(np.float64).tiny)).astype(np.float32)
        _, self.group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        self.order = np.argsort(values, kind="stable")
        self.last = np.cumsum(sizes) - 1

    def deviations(self, counts: Counts) -> FloatArray:
        """Values or mean ranks in each draw, minus their mean there."""
        rows = counts.shape[1]
        if not self.ranked:
            result: FloatArray = self.values - (counts @ self.values)[:, None] / rows
            return result
        upto = np.cumsum(counts[:, self.order], axis=1)[:, self.last]  # drawn rows up to each group of equal values
        size = np.diff(upto, axis=1, prepend=np.float32(0))
        ranks: FloatArray = upto - (size - 1) / 2 - (rows + 1) / 2  # mean rank of a group; all ranks have mean (rows + 1) / 2
        result = ranks[:, self.group] / np.float32(rows)
        return result

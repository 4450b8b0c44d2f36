"""Confidence intervals: the same metric on thousands of test sets, resampled with replacement from the one there is.

A `Sample` is what a score is computed from, row by row. Resampling rows of two models together keeps what they have in common
(hard sentences are hard for both), so small differences can be distinguished from chance (the paired bootstrap, Efron &
Tibshirani 1993). Rows are not copied: a resample is how often each row was drawn, and every metric here is computed from that.

`compare` turns the resamples into intervals and differences.
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
DRAWN_AT_ONCE = 100  # resamples; a fixed number, so that the rows of a unit are drawn the same way in every comparison
Counts = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sums:
    """A metric computed from sums over rows: an accuracy, an F1.

    `unit` names what the rows are. Samples with the same unit and length are resampled together: the same pairs in two
    languages, or the answers of two models.
    """

    columns: Doubles  # one row per sentence or pair, one column per sum
    measure: Callable[[Doubles], Doubles]  # sums (resamples × columns) to values (resamples)
    unit: str

    def __len__(self) -> int:
        return len(self.columns)

    def value(self) -> float:
        """The metric on the rows as they are."""
        return float(self.measure(self.columns.sum(axis=0, keepdims=True))[0])


@dataclass(frozen=True, eq=False)
class Correlation:
    """The correlation of a model's similarities with gold scores: Spearman's if `ranked`, else Pearson's."""

    scores: Doubles
    gold: Doubles
    unit: str
    ranked: bool = True

    def __len__(self) -> int:
        return len(self.scores)

    def value(self) -> float:
        """The correlation on the pairs as they are."""
        return spearman(self.scores, self.gold) if self.ranked else pearson(self.scores, self.gold)


class _Combined:
    """Several samples as one."""

    parts: "tuple[Sample, ...]"

    @property
    def unit(self) -> str:
        """The units of its parts."""
        return " ".join(part.unit for part in self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))


@dataclass(frozen=True, eq=False)
class Average(_Combined):
    """The mean of other metrics, each resampled on its own rows: every language counts the same."""

    parts: "tuple[Sample, ...]"

    def value(self) -> float:
        """The mean of the parts' values."""
        return float(np.mean([part.value() for part in self.parts]))


@dataclass(frozen=True, eq=False)
class Joined(_Combined):
    """One correlation over the pairs of several sets together; each set is resampled on its own and keeps its size."""

    parts: tuple[Correlation, ...]

    def whole(self) -> Correlation:
        """All pairs as one set."""
        scores, gold = (np.concatenate([getattr(part, name) for part in self.parts]) for name in ("scores", "gold"))
        return Correlation(scores, gold, self.unit, self.parts[0].ranked)

    def value(self) -> float:
        """The correlation over all pairs."""
        return self.whole().value()


@dataclass(frozen=True, eq=False)
class Difference:
    """One metric minus another, resampled on the same rows where their units are the same."""

    left: "Sample"
    right: "Sample"

    @property
    def unit(self) -> str:
        """The units of both."""
        return f"{self.left.unit} {self.right.unit}"

    def __len__(self) -> int:
        return len(self.left)

    def value(self) -> float:
        """The difference of the values."""
        return self.left.value() - self.right.value()


@dataclass(frozen=True, eq=False)
class Fixed:
    """A score without rows, computed elsewhere: it cannot be resampled."""

    number: float
    unit: str
    rows: int = 0

    def __len__(self) -> int:
        return self.rows

    def value(self) -> float:
        """The number."""
        return self.number


Sample = Sums | Correlation | Joined | Average | Difference | Fixed


def share(hits: NDArray[np.generic], unit: str) -> Sums:
    """The mean of one value per row: an accuracy, if they are hits."""
    rows = np.column_stack([hits.astype(np.float64), np.ones(len(hits))])
    return Sums(rows, lambda sums: sums[:, 0] / sums[:, 1], unit)


def f1(right: IntArray, found: IntArray, wanted: IntArray, unit: str) -> Sums:
    """F1 from counts per row: pairs found and correct, pairs found, pairs that should be found."""
    columns = np.column_stack([right, found, wanted]).astype(np.float64)
    return Sums(columns, lambda sums: 2 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1), unit)


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def can_be_resampled(sample: Sample) -> bool:
    """Whether the rows of all parts are known."""
    if isinstance(sample, Difference):
        return can_be_resampled(sample.left) and can_be_resampled(sample.right)
    return all(map(can_be_resampled, sample.parts)) if isinstance(sample, Average) else not isinstance(sample, Fixed)


def interval(draws: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of resampled values."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def draw(samples: Sequence[Sample], seed: int = 0, resamples: int = RESAMPLES) -> Doubles:
    """Values of `samples` (one per model, of the same test set) on the same resamples: samples × resamples."""
    return Draws(seed, resamples).of(samples)


class Draws:
    """Resampled values of many samples. What is part of several averages is resampled once.

    Which rows are drawn depends only on the seed, the unit and the number of rows: not on which models are compared, nor in
    which order.
    """

    def __init__(self, seed: int = 0, resamples: int = RESAMPLES) -> None:
        self.seed, self.resamples = seed, resamples
        self._known: dict[tuple[Sample, ...], Doubles] = {}

    def of(self, samples: Sequence[Sample]) -> Doubles:
        """Resampled values of samples of the same test set, one per model: samples × resamples."""
        first, key = samples[0], tuple(samples)
        if any(type(one) is not type(first) or one.unit != first.unit or len(one) != len(first) for one in samples):
            raise IsoglossError("scores of different test sets cannot be compared", hint="measure the models on the same data")
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
    """How often each row was drawn, in blocks of resamples: the number of the first, and resamples × rows."""
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
    """Correlations of samples that consist of `parts` (unit and number of rows), in order."""
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
    """One side of a correlation, prepared to be ranked again in every resample."""

    def __init__(self, values: Doubles, ranked: bool) -> None:
        self.ranked = ranked
        centered = values - values.mean()
        self.values = (centered / max(np.abs(centered).max(initial=0.0), np.finfo(np.float64).tiny)).astype(np.float32)
        _, self.group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        self.order = np.argsort(values, kind="stable")
        self.last = np.cumsum(sizes) - 1

    def deviations(self, counts: Counts) -> FloatArray:
        """Values or mean ranks in each resample, minus their mean."""
        rows = counts.shape[1]
        if not self.ranked:
            result: FloatArray = self.values - (counts @ self.values)[:, None] / rows
            return result
        upto = np.cumsum(counts[:, self.order], axis=1)[:, self.last]  # drawn rows up to each group of equal values
        size = np.diff(upto, axis=1, prepend=np.float32(0))
        ranks: FloatArray = upto - (size - 1) / 2 - (rows + 1) / 2  # mean rank of a group; all ranks have mean (rows + 1) / 2
        result = ranks[:, self.group] / np.float32(rows)
        return result

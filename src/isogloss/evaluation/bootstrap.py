"""Confidence intervals: the same metric on thousands of test sets, resampled with replacement from the one there is.

A `Sample` is a weighted sum of metrics, with the rows that they are computed from. Resampling rows of two models together keeps
what they have in common (hard sentences are hard for both), so small differences can be distinguished from chance (the paired
bootstrap, Efron & Tibshirani 1993). Rows are not copied: a resample is how often each row was drawn, and every metric here is
computed from that.

`compare` turns the resamples into intervals and differences.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import IsoglossError
from isogloss.evaluation.metrics import Doubles, spearman
from isogloss.types import FloatArray, IntArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 100  # resamples; a fixed number, so that the rows of a unit are drawn the same way in every comparison
Counts = NDArray[np.float32]  # how often each row was drawn: resamples × rows
Units = tuple[tuple[str, int], ...]  # names and sizes of sets of rows; the same unit is resampled in the same way everywhere


@dataclass(frozen=True, eq=False)
class Sums:
    """A metric computed from sums over rows: an accuracy, an F1."""

    columns: Doubles  # one row per sentence or pair, one column per sum
    measure: Callable[[Doubles], Doubles]  # sums (resamples × columns) to values (resamples)
    units: Units

    def value(self) -> float:
        """The metric on the rows as they are."""
        return float(self.measure(self.columns.sum(axis=0, keepdims=True))[0])

    def resampled(self, counts: Counts) -> Doubles:
        """The metric on each resample."""
        return self.measure(counts.astype(np.float64) @ self.columns)


@dataclass(frozen=True, eq=False)
class Correlation:
    """Spearman's correlation of a model's similarities with gold scores."""

    scores: Doubles
    gold: Doubles
    units: Units

    def value(self) -> float:
        """The correlation on the pairs as they are."""
        return spearman(self.scores, self.gold)

    def resampled(self, counts: Counts) -> Doubles:
        """The correlation on each resample; 0 if one side is constant."""
        own, gold = (_rank_deviations(side, counts) for side in (self.scores, self.gold))
        shared = np.einsum("dr,dr,dr->d", counts, own, gold, dtype=np.float64)
        spread = np.einsum("dr,dr,dr->d", counts, own, own) * np.einsum("dr,dr,dr->d", counts, gold, gold)
        roots = np.sqrt(spread.astype(np.float64))
        values: Doubles = np.divide(shared, roots, out=np.zeros_like(roots), where=roots > 0)
        return values


Metric = Sums | Correlation


@dataclass(frozen=True, eq=False)
class Sample:
    """A weighted sum of metrics, each resampled on its own rows: one metric, an average, or a difference."""

    terms: tuple[tuple[float, Metric], ...]
    rows: int

    def __len__(self) -> int:
        return self.rows

    @classmethod
    def of(cls, metric: Metric) -> "Sample":
        """One metric."""
        return cls(((1.0, metric),), sum(rows for _, rows in metric.units))

    def value(self) -> float:
        """The sum on the rows as they are."""
        return sum(weight * metric.value() for weight, metric in self.terms)

    @property
    def can_be_resampled(self) -> bool:
        """Whether the rows of all metrics are known."""
        return all(rows for _, metric in self.terms for _, rows in metric.units)


def fixed(number: float, unit: str) -> Sample:
    """A score computed elsewhere, whose rows are unknown: it cannot be resampled."""
    return Sample.of(Sums(np.array([[number]]), lambda sums: sums[:, 0], ((unit, 0),)))


def share(hits: NDArray[np.generic], unit: str) -> Sample:
    """The mean of one value per row: an accuracy, if they are hits."""
    rows = np.column_stack([hits.astype(np.float64), np.ones(len(hits))])
    return Sample.of(Sums(rows, lambda sums: sums[:, 0] / sums[:, 1], ((unit, len(hits)),)))


def ratio(values: Doubles, reference: Doubles, unit: str) -> Sample:
    """The mean of one value per row, divided by the mean of another: the share of a recall that is kept."""
    rows = np.column_stack([values, reference])
    return Sample.of(Sums(rows, _divided, ((unit, len(rows)),)))


def f1(right: IntArray, found: IntArray, wanted: IntArray, unit: str) -> Sample:
    """F1 from counts per row: pairs found and correct, pairs found, pairs that should be found."""
    columns = np.column_stack([right, found, wanted]).astype(np.float64)
    return Sample.of(Sums(columns, lambda sums: 2 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1), ((unit, len(right)),)))


def average(samples: Sequence[Sample]) -> Sample:
    """The mean of several samples: every language counts the same."""
    terms = ((weight / len(samples), metric) for sample in samples for weight, metric in sample.terms)
    return Sample(tuple(terms), sum(map(len, samples)))


def difference(left: Sample, right: Sample) -> Sample:
    """One sample minus another, on the same resamples where their units are the same."""
    return Sample((*left.terms, *((-weight, metric) for weight, metric in right.terms)), len(left))


def joined(parts: Sequence[Correlation]) -> Correlation:
    """One correlation over the pairs of several sets together; each set is resampled on its own and keeps its size."""
    scores, gold = (np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "gold"))
    return Correlation(scores, gold, tuple(unit for part in parts for unit in part.units))


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def interval(draws: Doubles) -> Interval:
    """The percentile interval of resampled values."""
    low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


class Draws:
    """Resampled values of many samples. What is part of several averages is resampled once.

    Which rows are drawn depends only on the seed, the unit and the number of rows: not on which models are compared, nor in
    which order.
    """

    def __init__(self, seed: int = 0, resamples: int = RESAMPLES) -> None:
        self.seed, self.resamples = seed, resamples
        self._known: dict[Metric, Doubles] = {}

    def of(self, samples: Sequence[Sample]) -> Doubles:
        """Resampled values of samples of the same test set, one per model: samples × resamples."""
        if len({tuple((type(metric), metric.units) for _, metric in sample.terms) for sample in samples}) > 1:
            raise IsoglossError("scores of different test sets cannot be compared", hint="measure the models on the same data")
        total = np.zeros((len(samples), self.resamples))
        for terms in zip(*(sample.terms for sample in samples), strict=True):
            self._draw([metric for _, metric in terms if metric not in self._known])
            total += [weight * self._known[metric] for weight, metric in terms]
        return total

    def _draw(self, metrics: Sequence[Metric]) -> None:
        """Resample metrics of the same rows together."""
        if not metrics:
            return
        blocks = []
        for drawn in zip(*(self.counts(unit, rows) for unit, rows in metrics[0].units), strict=True):
            counts = np.concatenate(drawn, axis=1)
            blocks.append([metric.resampled(counts) for metric in metrics])
        self._known.update(zip(metrics, np.concatenate(blocks, axis=1), strict=True))

    def counts(self, unit: str, rows: int) -> Iterator[Counts]:
        """How often each row of a unit was drawn, in blocks of resamples."""
        digest = hashlib.blake2b(unit.encode(), digest_size=8).digest()
        generator = np.random.default_rng([self.seed, int.from_bytes(digest, "little")])
        for start in range(0, self.resamples, DRAWN_AT_ONCE):
            draws = min(DRAWN_AT_ONCE, self.resamples - start)
            drawn = generator.integers(0, max(rows, 1), (draws, rows), dtype=np.int32)
            drawn += (np.arange(draws, dtype=np.int32) * rows)[:, None]
            yield np.bincount(drawn.ravel(), minlength=draws * rows).reshape(draws, rows).astype(np.float32)


def _divided(sums: Doubles) -> Doubles:
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)


def _rank_deviations(values: Doubles, counts: Counts) -> FloatArray:
    """The rank of each value in each resample, minus the mean rank; equal values share the mean of their ranks."""
    rows = counts.shape[1]
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(counts[:, order], axis=1)[:, np.cumsum(sizes) - 1]  # drawn rows up to each group of equal values
    size = np.diff(upto, axis=1, prepend=np.float32(0))
    ranks: FloatArray = upto - (size - 1) / 2 - (rows + 1) / 2  # mean rank of a group; all ranks have mean (rows + 1) / 2
    deviations: FloatArray = ranks[:, group] / np.float32(rows)
    return deviations

"""Choose a threshold: from gold pairs if there are some, else from deliberately mismatched pairs.

With gold, it is the threshold with the highest F1, half way to the next lower score, as in LASER's BUCC script. Without gold,
mismatched pairs show how often a wrong pair reaches a score:

    near misses   what a sentence is paired with when its match is hidden and all others are there: the best wrong pair
    shuffled      random pairs

With W near misses, of which W(t) reach t, and M(t) mined pairs that do:

    precision(t)  ≈  1 − A · (W(t) / W) / M(t)

A, the number of sentences without a translation, is estimated from the low scores, where correct pairs are rare:
A · W̄(λ)/W ≈ M̄(λ), with W̄ and M̄ the numbers below λ, the median score of the near misses (Storey 2002).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isogloss.config.mining import Margin, MiningSettings, Strategy
from isogloss.mining.margin import margin_scores
from isogloss.mining.matching import Matches, matched
from isogloss.search.neighbors import Neighbors, Vectors, pair_cosines
from isogloss.types import BoolArray, FloatArray, IntArray

POINTS = 200  # of a curve, evenly over all pairs, and the same number denser towards the best
ROUNDS = 10
SURE_OF = 0.999  # every threshold is above this share of shuffled pairs
SPARE = 4  # neighbors beyond k, to replace hidden ones
FOLDS = 5  # the matches of one fifth of the sentences are hidden at a time
SHUFFLED = 20_000

Doubles = NDArray[np.float64]


class Retrieved(NamedTuple):
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


def retrieved(right: int, found: int, wanted: int) -> Retrieved:
    """Precision, recall and F1 from counts; 0 where the denominator is."""
    f1 = 2 * right / (found + wanted) if found + wanted else 0.0
    return Retrieved(right / found if found else 0.0, right / wanted if wanted else 0.0, f1)


def retrieved_at(threshold: float, scores: NDArray[np.floating], right: BoolArray, wanted: int) -> Retrieved:
    """The same for the pairs above a threshold; `right` marks the gold pairs, of which there are `wanted` in total."""
    kept = scores >= threshold
    return retrieved(int((kept & right).sum()), int(kept.sum()), wanted)


def best_threshold(scores: NDArray[np.floating], right: BoolArray, wanted: int) -> float:
    """The threshold with the highest F1, half way to the next lower score; the strictest of equals, ∞ if nothing is right."""
    values, counts = np.unique(-np.asarray(scores, dtype=np.float64), return_counts=True)
    if not len(values) or not right.any():
        return float("inf")
    found = np.cumsum(counts)
    correct = np.searchsorted(np.sort(-np.asarray(scores, dtype=np.float64)[right]), values, side="right")
    best = int((2 * correct / (found + wanted)).argmax())
    below = values[min(best + 1, len(values) - 1)]
    half_way = -(values[best] + below) / 2
    return float(half_way if half_way > -below else -values[best])


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Precision at thresholds, the number of pairs above each, and recall if there are gold pairs."""

    thresholds: Doubles  # falling
    pairs: NDArray[np.int64]
    precision: Doubles
    recall: Doubles = field(default_factory=lambda: np.empty(0))

    def as_rows(self) -> list[dict[str, Any]]:
        """For JSON."""
        columns = {"threshold": self.thresholds.round(5), "pairs": self.pairs, "precision": self.precision.round(4)}
        if len(self.recall):
            columns["recall"] = self.recall.round(4)
        return [dict(zip(columns, row, strict=True)) for row in zip(*(one.tolist() for one in columns.values()), strict=True)]


def gold_curve(scores: NDArray[np.floating], right: BoolArray, wanted: int) -> Curve:
    """Precision and recall at selected thresholds, the strictest first."""
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    mined, correct = np.asarray(scores, dtype=np.float64)[order], np.cumsum(right[order])
    at = _spread(mined)
    return Curve(mined[at], at + 1, correct[at] / (at + 1), correct[at] / max(wanted, 1))


def _spread(mined: Doubles) -> NDArray[np.int64]:
    """Places of selected scores in falling order, the last of equals.

    Even steps alone could skip all correct pairs, if few sentences have a translation.
    """
    if not len(mined):
        return np.empty(0, dtype=np.int64)
    steps = np.concatenate([np.linspace(1, len(mined), POINTS), np.geomspace(1, len(mined), POINTS)])
    at = np.unique(np.round(steps).astype(np.int64)) - 1
    return np.unique(np.searchsorted(-mined, -mined[at], side="right") - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration(Curve):
    """Estimated precision."""

    without_translation: float = 1.0  # share of sentences
    least: float = -np.inf  # the lowest threshold: what shuffled pairs reach

    def threshold_for(self, precision: float) -> float:
        """The lowest threshold with this estimated precision; ∞ if there is none."""
        enough = (self.precision >= precision) & (self.thresholds >= self.least)
        return float(self.thresholds[enough].min(initial=np.inf))

    def precision_at(self, threshold: float) -> float:
        """The estimated precision of the pairs above a threshold."""
        place = int(np.searchsorted(-self.thresholds, -threshold, side="right")) - 1
        return float(self.precision[max(place, 0)]) if len(self.precision) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"without_translation": round(self.without_translation, 4), "curve": self.as_rows()}


def calibrate(
    vectors: tuple[Vectors, Vectors], left: Neighbors, right: Neighbors, matches: Matches, settings: MiningSettings
) -> Calibration:
    """Estimate the precision of mined pairs from mismatched ones; there should be `SPARE` neighbors beyond `settings.k`."""
    near = near_misses(left, right, matches, settings.k, settings.margin, settings.strategy)
    rows, columns = shuffled_pairs(len(left), len(right), matches)
    means = left.first(settings.k).mean[rows], right.first(settings.k).mean[columns]
    shuffled = margin_scores(pair_cosines(*vectors, rows, columns), *means, settings.margin)
    return calibrated(matches.scores, near, shuffled, len(left))


def calibrated(scores: FloatArray, near: FloatArray, shuffled: FloatArray, sentences: int) -> Calibration:
    """Estimate the precision of mined pairs.

    `near` has the score that each pair's source sentence gets when its target is hidden (−∞: none), `shuffled` the scores of
    random pairs; `sentences` is how many could have been mined.

    For a sentence without a translation, hiding its wrong target leaves its second choice, whose score is too low. So each
    mismatch is weighted by the probability that the hidden pair was correct, which follows from the estimate: we iterate.
    """
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    mined, wrong = scores.astype(np.float64)[order], near.astype(np.float64)[order]
    weight = np.ones(len(mined))
    least = float(np.quantile(shuffled, SURE_OF)) if len(shuffled) else -np.inf
    if not len(mined):
        return Calibration(np.empty(0), np.empty(0, np.int64), np.empty(0), least=least)
    absent = 1.0
    for _ in range(ROUNDS):
        reached, absent = _false_positives(mined, wrong, weight, sentences)
        weight = np.maximum(1 - _local(reached), 1 / len(mined))
    precision = np.clip(1 - reached / np.arange(1, len(mined) + 1), 0, 1)
    at = _spread(mined)
    return Calibration(mined[at], at + 1, precision[at], without_translation=absent, least=least)


def _false_positives(mined: Doubles, wrong: Doubles, weight: Doubles, sentences: int) -> tuple[Doubles, float]:
    """The expected number of wrong pairs down to each mined pair, and the share of sentences without a translation."""
    order = np.argsort(wrong)
    ascending, below = wrong[order], np.concatenate([[0], np.cumsum(weight[order])])
    total = below[-1]
    finite = ascending[np.isfinite(ascending)]
    if not len(finite):  # without their targets no sentence finds another
        return np.zeros(len(mined)), 0.0
    middle = float(np.median(finite))
    under = below[np.searchsorted(ascending, middle)]
    low = sentences - int((mined >= middle).sum())
    absent = min(low * total / under, sentences) if under else float(sentences)
    reached = total - below[np.searchsorted(ascending, mined)]
    return absent * reached / total, absent / sentences


def _local(reached: Doubles) -> Doubles:
    """The probability that each pair is wrong, which only rises as scores fall."""
    from scipy.optimize import isotonic_regression

    steps = np.diff(reached, prepend=0)
    return np.asarray(np.clip(isotonic_regression(steps).x, 0, 1), dtype=np.float64)


def near_misses(
    left: Neighbors, right: Neighbors, matches: Matches, k: int, kind: Margin = "ratio", strategy: Strategy = "max"
) -> FloatArray:
    """For every match, the score that its left sentence gets when its right one is hidden; −∞ if it finds no other.

    There should be more than k neighbors, so that others can replace hidden ones.
    """
    found = np.full(len(matches), -np.inf, dtype=np.float32)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(left))[matches.left]
    for number in range(FOLDS):
        own = fold == number
        hidden = np.zeros(len(right), dtype=np.bool_)
        hidden[matches.right[own]] = True
        again = matched_without(left, right, hidden, k, kind, strategy)
        score_of = np.full(len(left), -np.inf, dtype=np.float32)
        np.maximum.at(score_of, again.left, again.scores)
        found[own] = score_of[matches.left[own]]
    return found


def matched_without(left: Neighbors, right: Neighbors, hidden: BoolArray, k: int, kind: Margin, strategy: Strategy) -> Matches:
    """Mine without some of the right sentences."""
    seen = ~hidden[left.ids]
    order = np.argsort(~seen, axis=1, kind="stable")[:, :k]  # hidden ones last, and cut off if there are enough others
    ids, similarity = np.take_along_axis(left.ids, order, axis=1), np.take_along_axis(left.similarity, order, axis=1)
    there = np.take_along_axis(seen, order, axis=1)
    left_mean = np.where(there, similarity, 0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    back = right.first(k)
    scores = margin_scores(similarity, left_mean[:, None], back.mean[ids], kind)
    back_scores = margin_scores(back.similarity, left_mean[back.ids], back.mean[:, None], kind)
    scores[~there], back_scores[hidden] = -np.inf, -np.inf
    again = matched(Neighbors(ids, similarity), back, scores, back_scores, strategy)
    return again.where(again.scores > -np.inf)


def shuffled_pairs(lefts: int, rights: int, matches: Matches) -> tuple[IntArray, IntArray]:
    """Random rows of both sides, without the mined pairs."""
    random = np.random.default_rng(0)
    left, right = random.integers(0, lefts, SHUFFLED), random.integers(0, rights, SHUFFLED)
    drawn = ~np.isin(left * rights + right, matches.left * rights + matches.right)
    return left[drawn], right[drawn]

"""From which score on pairs are taken: by gold pairs where there are some, by deliberately wrong pairs where there are none.

With gold, the threshold of the highest F1, half way to the next score below, as in LASER's BUCC script. Without gold, scores of
pairs that are known to be wrong say how often a wrong pair reaches a score. With W of them, of which W(t) reach t, and M mined
pairs, of which M(t) do:

    precision(t)  ≈  1 − A · (W(t) / W) / M(t)

A, how many sentences have no translation to be found, is read off the low scores, where a right pair is rare: A · W̄(λ)/W ≈ M̄(λ)
with W̄ and M̄ the numbers below λ, the median of the wrong scores (Storey 2002: the same way as false discoveries are counted
elsewhere). `wrong_pairs` makes the wrong pairs.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isogloss.types import BoolArray, FloatArray

POINTS = 200  # of a curve, evenly over all pairs, and as many densely over the best
ROUNDS = 10
SURE_OF = 0.999  # share of shuffled pairs that a threshold keeps out, whatever else it does

Doubles = NDArray[np.float64]


class Retrieved(NamedTuple):
    """How much of what was found is right, how much of what is right was found, and the harmonic mean of the two."""

    precision: float
    recall: float
    f1: float


def retrieved(right: int, found: int, wanted: int) -> Retrieved:
    """Precision, recall and F1 from counts; each is 0 where it has nothing to be a share of."""
    f1 = 2 * right / (found + wanted) if found + wanted else 0.0
    return Retrieved(right / found if found else 0.0, right / wanted if wanted else 0.0, f1)


def retrieved_at(threshold: float, scores: NDArray[np.floating], right: BoolArray, wanted: int) -> Retrieved:
    """The same if every pair of this score or more is taken; `right` says which pairs are gold, `wanted` how many there are."""
    taken = scores >= threshold
    return retrieved(int((taken & right).sum()), int(taken.sum()), wanted)


def best_threshold(scores: NDArray[np.floating], right: BoolArray, wanted: int) -> float:
    """The threshold with the highest F1, half way to the next score below; the strictest of equals, ∞ where nothing is right.

    Pairs of equal score are taken together or not at all.
    """
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
class GoldCurve:
    """What gold pairs say: at each threshold the pairs above it, how many of them are right, and how many of the right ones."""

    thresholds: Doubles  # falling
    pairs: NDArray[np.int64]
    precision: Doubles
    recall: Doubles

    def as_rows(self) -> list[dict[str, Any]]:
        """For JSON."""
        rows = zip(self.thresholds.tolist(), self.pairs.tolist(), self.precision.tolist(), self.recall.tolist(), strict=True)
        return [
            {"threshold": round(one, 5), "pairs": pairs, "precision": round(precision, 4), "recall": round(recall, 4)}
            for one, pairs, precision, recall in rows
        ]


def gold_curve(scores: NDArray[np.floating], right: BoolArray, wanted: int) -> GoldCurve:
    """Precision and recall at some thresholds, from the strictest on; pairs of equal score are taken together."""
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    mined, correct = np.asarray(scores, dtype=np.float64)[order], np.cumsum(right[order])
    at = _spread(mined)
    return GoldCurve(mined[at], at + 1, correct[at] / (at + 1), correct[at] / max(wanted, 1))


def _spread(mined: Doubles) -> NDArray[np.int64]:
    """Places of some of the falling scores, the last of those that are equal.

    Translations may be few among many sentences: even steps alone would jump over all of them.
    """
    if not len(mined):
        return np.empty(0, dtype=np.int64)
    steps = np.concatenate([np.linspace(1, len(mined), POINTS), np.geomspace(1, len(mined), POINTS)])
    at = np.unique(np.round(steps).astype(np.int64)) - 1
    return np.unique(np.searchsorted(-mined, -mined[at], side="right") - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What wrong pairs say of mined ones: at each threshold the pairs above it, and how many of them are probably right."""

    thresholds: Doubles  # falling
    pairs: NDArray[np.int64]
    precision: Doubles
    without_translation: float  # share of sentences
    least: float  # what shuffled pairs reach

    def threshold_for(self, precision: float) -> float:
        """The lowest threshold that is estimated to be as precise as that; ∞ where none is."""
        enough = (self.precision >= precision) & (self.thresholds >= self.least)
        return float(self.thresholds[enough].min(initial=np.inf))

    def precision_at(self, threshold: float) -> float:
        """The estimated precision of the pairs from a threshold on."""
        place = int(np.searchsorted(-self.thresholds, -threshold, side="right")) - 1
        return float(self.precision[max(place, 0)]) if len(self.precision) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        points = zip(self.thresholds.tolist(), self.pairs.tolist(), self.precision.tolist(), strict=True)
        return {
            "without_translation": round(self.without_translation, 4),
            "curve": [
                {"threshold": round(one, 5), "pairs": pairs, "precision": round(precision, 4)}
                for one, pairs, precision in points
            ],
        }


def calibrated(scores: FloatArray, near: FloatArray, shuffled: FloatArray, sentences: int) -> Calibration:
    """Estimate the precision of mined pairs.

    `scores` are those of the pairs, `near` what the same sentences got when the partner was hidden, pair by pair (−∞: nothing),
    `shuffled` the scores of random pairs, and `sentences` how many could have been mined.

    What a sentence without a translation gets when its partner is hidden is its second choice, and too low; so each counts by
    how probable it is that its partner was right, which in turn follows from the estimate: a few rounds settle it.
    """
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    mined, wrong = scores.astype(np.float64)[order], near.astype(np.float64)[order]
    weight = np.ones(len(mined))
    least = float(np.quantile(shuffled, SURE_OF)) if len(shuffled) else -np.inf
    if not len(mined):
        return Calibration(np.empty(0), np.empty(0, np.int64), np.empty(0), 1.0, least)
    absent = 1.0
    for _ in range(ROUNDS):
        reached, absent = _false_positives(mined, wrong, weight, sentences)
        weight = np.maximum(1 - _local(reached), 1 / len(mined))
    precision = np.clip(1 - reached / np.arange(1, len(mined) + 1), 0, 1)
    at = _spread(mined)
    return Calibration(mined[at], at + 1, precision[at], absent, least)


def _false_positives(mined: Doubles, wrong: Doubles, weight: Doubles, sentences: int) -> tuple[Doubles, float]:
    """How many wrong pairs are expected down to each mined pair, and which share of sentences has no translation."""
    order = np.argsort(wrong)
    ascending, below = wrong[order], np.concatenate([[0], np.cumsum(weight[order])])
    total = below[-1]
    finite = ascending[np.isfinite(ascending)]
    if not len(finite):  # without their partner nobody finds anybody
        return np.zeros(len(mined)), 0.0
    middle = float(np.median(finite))
    under = below[np.searchsorted(ascending, middle)]
    low = sentences - int((mined >= middle).sum())
    absent = min(low * total / under, sentences) if under else float(sentences)
    reached = total - below[np.searchsorted(ascending, mined)]
    return absent * reached / total, absent / sentences


def _local(reached: Doubles) -> Doubles:
    """How probable it is that each pair itself is wrong, which only rises as scores fall."""
    from scipy.optimize import isotonic_regression

    steps = np.diff(reached, prepend=0)
    return np.asarray(np.clip(isotonic_regression(steps).x, 0, 1), dtype=np.float64)

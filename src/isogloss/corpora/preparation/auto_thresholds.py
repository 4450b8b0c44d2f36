"""Thresholds from the data itself (`--auto`), language by language, each with the reason in words.

Two shapes of score need two ways. A score without an upper end (the length ratio) is taken in logarithms, and the threshold
is set where ordinary spread ends: 3.5 robust standard deviations above the median. A share between 0 and 1 that is high for
good pairs is cut in the valley between a small low heap and the rest; if there is no valley, the recipe's threshold stays.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.corpora.cleaning.rule import Rule
from isogloss.types import FloatArray

UNBOUNDED = ("length ratio",)
SHARES = ("wrong script", "wrong language", "different numbers", "low similarity")
MOST_BEYOND = 5.0  # percent
DEVIATIONS, NORMAL_SPREAD = 3.5, 1.4826  # the second makes a median deviation comparable to a standard deviation
FEWEST_IN_A_HEAP = 20  # one odd pair is no heap
FEWEST, SMALLEST_LOW_HEAP, LARGEST_LOW_HEAP = 200, 0.0005, 0.2
BINS, DEEP = 40, 0.5  # a valley has less than half of the lower heap's height


@dataclass(frozen=True, slots=True)
class Threshold:
    """What was chosen for one rule in one language, and why."""

    rule: str
    language: str
    value: float
    reason: str


def choose(rule: Rule, language: str, scores: FloatArray) -> Threshold | None:
    """The threshold for a rule from a sample of its scores in a language; None for rules that have no such threshold."""
    if rule.name not in (*UNBOUNDED, *SHARES):
        return None
    scores, default = scores[np.isfinite(scores)], float(getattr(rule, rule.threshold))
    if len(scores) < FEWEST:
        return Threshold(rule.name, language, default, f"the recipe's: only {amount(len(scores), 'pair')} to learn from")
    if rule.name in UNBOUNDED:
        return _beyond_ordinary(rule.name, language, scores, default)
    return _between_heaps(rule.name, language, scores, default)


def _beyond_ordinary(name: str, language: str, scores: FloatArray, default: float) -> Threshold:
    logs = np.log(np.maximum(scores, 1e-6))
    middle = float(np.median(logs))
    spread = NORMAL_SPREAD * float(np.median(np.abs(logs - middle)))
    value = float(np.exp(middle + DEVIATIONS * max(spread, 0.05)))
    if value >= default:
        return Threshold(name, language, default, f"the recipe's: ordinary spread reaches {value:.2f}")
    gone = 100 * float((scores > value).mean())
    if gone > MOST_BEYOND:
        return Threshold(name, language, default, f"the recipe's: {gone:.0f} % are beyond {value:.2f}, which is not noise")
    text = f"median {np.exp(middle):.2f}, ordinary spread ends at {value:.2f}; {gone:.1f} % are beyond"
    return Threshold(name, language, round(value, 3), text)


def _between_heaps(name: str, language: str, scores: FloatArray, default: float) -> Threshold:
    low, top = min(0.0, float(scores.min())), max(1.0, float(scores.max()))
    counts, edges = np.histogram(scores, bins=BINS, range=(low, top))
    smooth = np.convolve(counts, [0.25, 0.5, 0.25], mode="same")
    best = _widest_valley(smooth)
    share = 0.0 if best is None else float((scores < edges[best]).mean())
    few = share * len(scores) < FEWEST_IN_A_HEAP
    if best is None or few or not SMALLEST_LOW_HEAP <= share <= LARGEST_LOW_HEAP:
        return Threshold(name, language, default, "the recipe's: the scores make one heap")
    value = round(float(edges[best]), 3)
    text = f"a valley at {value:.2f} parts a small low heap from the rest; {100 * share:.1f} % are below"
    return Threshold(name, language, value, text)


def _widest_valley(heights: NDArray[np.float64]) -> int | None:
    """The middle of the longest stretch that is low between something higher below it and the main heap above it."""
    left = np.maximum.accumulate(heights)
    right = np.maximum.accumulate(heights[::-1])[::-1]
    low = heights < DEEP * np.minimum(left, right)
    low[int(heights.argmax()) :] = False
    starts, ends = (np.flatnonzero(np.diff(np.concatenate([[0], low, [0]])) == step) for step in (1, -1))
    if not len(starts):
        return None
    longest = int((ends - starts).argmax())
    return int(starts[longest] + ends[longest]) // 2


def apply(rules: Iterable[Rule], language: str, chosen: dict[tuple[str, str], Threshold]) -> list[Rule]:
    """The rules with their thresholds for a language."""
    result = []
    for rule in rules:
        found = chosen.get((rule.name, language))
        result.append(replace(rule, **{rule.threshold: found.value}) if found else rule)  # type: ignore[type-var]
    return result


def as_rows(chosen: dict[tuple[str, str], Threshold]) -> list[dict[str, Any]]:
    """For the manifest, in a fixed order."""
    return [asdict(chosen[key]) for key in sorted(chosen)]

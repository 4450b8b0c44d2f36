"""Thresholds from the data (`--auto`), per language, each with its reason.

"spread" is for scores without an upper end (the length ratio): the threshold is 3.5 robust standard deviations above the
median of their logarithms. "valley" is for shares between 0 and 1 that are high for good pairs: the threshold is the valley
between a small low cluster and the rest. Where that finds nothing, the threshold of the settings is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.corpora.cleaning.rule import Rule
from isogloss.types import FloatArray

MAX_BEYOND = 5.0  # percent
DEVIATIONS, NORMAL_SPREAD = 3.5, 1.4826  # the second makes a median deviation comparable to a standard deviation
MIN_SCORES, MIN_IN_CLUSTER = 200, 20
MIN_LOW_SHARE, MAX_LOW_SHARE = 0.0005, 0.2
BINS, DEPTH = 40, 0.5  # a valley is less than half as high as the lower cluster
UNCHANGED = "setting kept"


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of one rule in one language, and why."""

    rule: str
    language: str
    value: float
    reason: str


def choose(rule: Rule, language: str, scores: FloatArray) -> Threshold:
    """The threshold for a rule with automatic ones, from a sample of its scores in a language."""
    scores, default = scores[np.isfinite(scores)], float(rule.threshold)
    if len(scores) < MIN_SCORES:
        value, reason = default, f"{UNCHANGED}: only {amount(len(scores), 'pair')} to learn from"
    else:
        value, reason = (_by_spread if rule.auto == "spread" else _by_valley)(scores, default)
    return Threshold(rule.name, language, value, reason)


def _by_spread(scores: FloatArray, default: float) -> tuple[float, str]:
    logs = np.log(np.maximum(scores, 1e-6))
    median = float(np.median(logs))
    spread = NORMAL_SPREAD * float(np.median(np.abs(logs - median)))
    value = float(np.exp(median + DEVIATIONS * max(spread, 0.05)))
    if value >= default:
        return default, f"{UNCHANGED}: ordinary spread reaches {value:.2f}"
    beyond = 100 * float((scores > value).mean())
    if beyond > MAX_BEYOND:
        return default, f"{UNCHANGED}: {beyond:.0f} % are beyond {value:.2f}, too many for noise"
    return round(value, 3), f"median {np.exp(median):.2f}, ordinary spread ends at {value:.2f}; {beyond:.1f} % are beyond"


def _by_valley(scores: FloatArray, default: float) -> tuple[float, str]:
    low, top = min(0.0, float(scores.min())), max(1.0, float(scores.max()))
    counts, edges = np.histogram(scores, bins=BINS, range=(low, top))
    valley = _widest_valley(np.convolve(counts, [0.25, 0.5, 0.25], mode="same"))
    share = 0.0 if valley is None else float((scores < edges[valley]).mean())
    few = share * len(scores) < MIN_IN_CLUSTER
    if valley is None or few or not MIN_LOW_SHARE <= share <= MAX_LOW_SHARE:
        return default, f"{UNCHANGED}: the scores form one cluster"
    value = round(float(edges[valley]), 3)
    return value, f"a valley at {value:.2f} separates a small low cluster; {100 * share:.1f} % are below"


def _widest_valley(heights: NDArray[np.float64]) -> int | None:
    """The middle of the longest low stretch between something higher below it and the highest bin above it."""
    left = np.maximum.accumulate(heights)
    right = np.maximum.accumulate(heights[::-1])[::-1]
    low = heights < DEPTH * np.minimum(left, right)
    low[int(heights.argmax()) :] = False
    starts, ends = (np.flatnonzero(np.diff(np.concatenate([[0], low, [0]])) == step) for step in (1, -1))
    if not len(starts):
        return None
    longest = int((ends - starts).argmax())
    return int(starts[longest] + ends[longest]) // 2


def apply(rules: Iterable[Rule], language: str, chosen: dict[tuple[str, str], Threshold]) -> list[Rule]:
    """The rules with their thresholds for a language."""
    found = [(rule, chosen.get((rule.name, language))) for rule in rules]
    return [replace(rule, threshold=threshold.value) if threshold else rule for rule, threshold in found]

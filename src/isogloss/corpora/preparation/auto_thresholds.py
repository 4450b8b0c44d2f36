"""Thresholds from the data (`--auto`), per language, each with its reason.

"spread" is for scores without an upper end (the length ratio): the threshold is 3.5 robust standard deviations above the
median of their logarithms. "valley" is for shares between 0 and 1 that are high for good pairs: the threshold is the valley
between a small low cluster and the rest. Where that finds nothing, the threshold of the settings is kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.preparation.pair_selection import ScoredPart
from isogloss.corpora.preparation.score_blocks import score_column
from isogloss.types import FloatArray

SAMPLE = 200_000  # scores per rule and language
MAX_BEYOND = 5.0  # percent
DEVIATIONS, NORMAL_SPREAD = 3.5, 1.4826  # a standard deviation is 1.4826 median absolute deviations
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


def set_thresholds(parts: Sequence[ScoredPart]) -> list[Threshold]:
    """Set the thresholds of all parts, per language, from a sample of the scores of all corpora together."""
    chosen = []
    for language in sorted({part.language for part in parts}):
        own = [part for part in parts if part.language == language]
        step = max(1, sum(part.rows for part in own) // SAMPLE)
        for rule in (rule for rule in own[0].rules if rule.auto):
            sample = [
                table.column(0).to_numpy()[-rows.start % step :: step]
                for part in own
                for rows, table in part.batches([score_column(rule)])
            ]
            chosen.append(choose(rule, language, np.concatenate(sample)))
        for part in own:
            part.rules = apply(part.rules, [threshold for threshold in chosen if threshold.language == language])
    return sorted(chosen, key=lambda threshold: (threshold.rule, threshold.language))


def choose(rule: Rule, language: str, scores: FloatArray) -> Threshold:
    """The threshold of a rule, from a sample of its scores in a language."""
    scores = scores[np.isfinite(scores)]
    if len(scores) < MIN_SCORES:
        value, reason = rule.threshold, f"{UNCHANGED}: only {amount(len(scores), 'pair')} to learn from"
    else:
        value, reason = (_by_spread if rule.auto == "spread" else _by_valley)(scores, rule.threshold)
    return Threshold(rule.name, language, float(value), reason)


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
    """The middle of the longest run of low bins between a lower peak and the highest bin."""
    left = np.maximum.accumulate(heights)
    right = np.maximum.accumulate(heights[::-1])[::-1]
    low = heights < DEPTH * np.minimum(left, right)
    low[int(heights.argmax()) :] = False
    starts, ends = (np.flatnonzero(np.diff(low, prepend=0, append=0) == step) for step in (1, -1))
    if not len(starts):
        return None
    longest = (ends - starts).argmax()
    return int(starts[longest] + ends[longest]) // 2


def apply(rules: Iterable[Rule], chosen: Iterable[Threshold]) -> list[Rule]:
    """The rules with the thresholds of one language."""
    values = {threshold.rule: threshold.value for threshold in chosen}
    return [replace(rule, threshold=values.get(rule.name, rule.threshold)) for rule in rules]

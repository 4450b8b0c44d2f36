"""Deliberately mismatched pairs, from whose scores `calibration` estimates precision without gold pairs.

near misses   what a sentence is paired with when its match is hidden and all others are there: the best wrong pair
shuffled      random pairs
"""

import numpy as np

from isogloss.mining.margin import margin_scores
from isogloss.mining.matching import Matches, matched
from isogloss.search.neighbours import Neighbours
from isogloss.types import BoolArray, FloatArray, IntArray

SPARE = 4  # neighbours beyond k, to replace hidden ones
FOLDS = 5  # the matches of one fifth of the sentences are hidden at a time
SHUFFLED = 20_000


def near_misses(
    left: Neighbours, right: Neighbours, matches: Matches, k: int, kind: str = "ratio", strategy: str = "max", seed: int = 0
) -> FloatArray:
    """For every match, the score that its left sentence gets when its right one is hidden; −∞ if it finds no other.

    There should be more than k neighbours, so that others can replace hidden ones.
    """
    found = np.full(len(matches), -np.inf, dtype=np.float32)
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(left))[matches.left]
    for number in range(FOLDS):
        own = fold == number
        hidden = np.zeros(len(right), dtype=np.bool_)
        hidden[matches.right[own]] = True
        again = matched_without(left, right, hidden, k, kind, strategy)
        score_of = np.full(len(left), -np.inf, dtype=np.float32)
        np.maximum.at(score_of, again.left, again.scores)
        found[own] = score_of[matches.left[own]]
    return found


def matched_without(left: Neighbours, right: Neighbours, hidden: BoolArray, k: int, kind: str, strategy: str) -> Matches:
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
    again = matched(Neighbours(ids, similarity), back, scores, back_scores, strategy)
    return again.where(again.scores > -np.inf)


def shuffled_pairs(lefts: int, rights: int, matches: Matches, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Random rows of both sides, without the mined pairs."""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, lefts, SHUFFLED), random.integers(0, rights, SHUFFLED)
    drawn = ~np.isin(left * rights + right, matches.left * rights + matches.right)
    return left[drawn], right[drawn]

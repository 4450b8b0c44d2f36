"""Turn scored candidates into pairs.

    forward       every left sentence with its best candidate; right sentences may be used more than once
    backward      every right sentence with its best candidate
    intersection  pairs that are best in both directions
    max           the best candidates of both directions, highest score first, every sentence at most once: the default
    one-to-one    the same with all candidates: takes the second choice if the first is used already

The first four are those of Artetxe & Schwenk (2019, §3.2) and of LASER's mine_bitexts. Ties go to the lower left row, then to
the lower right row, so the same input always gives the same pairs.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.config.mining import Strategy
from isogloss.search.neighbors import Neighbors
from isogloss.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Pairs of row numbers, the best score first."""

    left: IntArray
    right: IntArray
    scores: FloatArray

    def __len__(self) -> int:
        return len(self.scores)

    def __add__(self, others: "Matches") -> "Matches":
        left, right = np.concatenate([self.left, others.left]), np.concatenate([self.right, others.right])
        return Matches(left, right, np.concatenate([self.scores, others.scores]))

    def where(self, mask: "BoolArray | IntArray") -> "Matches":
        """The pairs at these places."""
        return Matches(self.left[mask], self.right[mask], self.scores[mask])


def matched(
    left: Neighbors, right: Neighbors, left_scores: FloatArray, right_scores: FloatArray, strategy: Strategy = "max"
) -> Matches:
    """Choose pairs by the scores of the candidates of both sides (`margin.candidate_scores` gives them)."""
    if not left.ids.size:  # the other side has no neighbors either
        return Matches(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    candidates = _every if strategy == "one-to-one" else _best
    forward, backward = candidates(left, left_scores), _swapped(candidates(right, right_scores))
    if strategy in ("forward", "backward"):
        return _in_order(forward if strategy == "forward" else backward)
    if strategy == "intersection":
        back = np.empty(len(right.ids), dtype=np.int64)
        back[backward.right] = backward.left
        return _in_order(forward.where(back[forward.right] == forward.left))
    both = _in_order(forward + backward)
    return both.where(_once(both, len(left.ids), len(right.ids)))


def _swapped(matches: Matches) -> Matches:
    return Matches(matches.right, matches.left, matches.scores)


def _every(side: Neighbors, scores: FloatArray) -> Matches:
    return Matches(np.repeat(np.arange(len(side.ids)), side.ids.shape[1]), side.ids.ravel(), scores.ravel())


def _best(side: Neighbors, scores: FloatArray) -> Matches:
    """The best candidate of every sentence; the lower row of equals."""
    rows, best = np.arange(len(scores)), scores.max(axis=1)
    ids = np.where(scores == best[:, None], side.ids, np.iinfo(np.int64).max).min(axis=1)
    return Matches(rows, ids, best)


def _in_order(matches: Matches) -> Matches:
    return matches.where(np.lexsort((matches.right, matches.left, -matches.scores)))


def _once(ordered: Matches, lefts: int, rights: int) -> IntArray:
    """Which pairs are used, in order, if no sentence may be used twice.

    Each depends on all before it, so this is a loop, of two lookups per candidate.
    """
    free_left, free_right = bytearray(b"\1") * lefts, bytearray(b"\1") * rights
    taken: list[int] = []
    for place, (row, column) in enumerate(zip(ordered.left.tolist(), ordered.right.tolist(), strict=True)):
        if free_left[row] and free_right[column]:
            free_left[row] = free_right[column] = 0
            taken.append(place)
    return np.array(taken, dtype=np.int64)

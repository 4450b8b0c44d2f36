"""BUCC: find the few translations in two corpora, and nothing else.

Pairs are mined as in LASER (Artetxe & Schwenk 2019; Reimers & Gurevych 2020, §4.2): the ratio margin over k neighbors in both
directions, each sentence at most once (`isogloss.mining`). Sentences that occur twice are searched once and never extracted,
because it is unknown which copy the gold pair means. The threshold is chosen on the training split. If there is only one
split, sentences are split in halves by a hash of the left id, and each half is measured with the threshold of the other: no
gold pair influences the threshold that it is measured with.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isogloss.evaluation.bootstrap import f1
from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.data.known_sets import SETS
from isogloss.evaluation.data.test_sets import Data, Haystack
from isogloss.evaluation.metrics import Doubles
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.task import Task
from isogloss.mining.calibration import best_threshold, retrieved, retrieved_at
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import matched
from isogloss.search.neighbors import both_ways
from isogloss.types import BoolArray, IntArray

MEASURE = "F1"
K = 4
SPLITS = ("test", "training", "dev")
HALVES_NOTE = "one split only: each half, by id, is measured with the threshold chosen on the other"


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The split to measure on, and the one to choose the threshold on; None: the other half."""

    test: Haystack
    training: Haystack | None = None


def open_splits(data: Data, name: str, subset: str) -> Splits:
    """The splits of a mining set that the data has; raises if it has none."""
    if not any("{split}" in path for path in SETS[name].folder.paths):
        found = {"test": data.haystack(name, subset, "test")}
    else:
        found = {split: data.haystack(name, subset, split) for split in SPLITS}
    present = [haystack for haystack in found.values() if haystack is not None]
    if not present:
        raise data.missing(name, subset)
    return Splits(present[0], found.get("training") if found["test"] is not None else None)


def mining(table: str, pairs: Sequence[Splits], k: int = K) -> Task:
    """One F1 per language pair."""
    sets = [part for splits in pairs for part in (splits.test, splits.training) if part is not None]
    return Task(sets, lambda space: [_f1(table, splits, space, k) for splits in pairs])


def _f1(table: str, splits: Splits, space: Space, k: int) -> TaskScore:
    haystack, mined = splits.test, mine_haystack(splits.test, space, k)
    if splits.training is not None:
        chosen = mine_haystack(splits.training, space, k).best_threshold()
        thresholds, note = np.full(len(haystack.ids[0]), chosen), ""
    else:
        half = halves(haystack.ids[0])
        of_half = [mined.best_threshold(half != own) for own in (False, True)]
        thresholds, note = np.where(half, of_half[1], of_half[0]), HALVES_NOTE
    counts = mined.counts(mined.scores >= thresholds[mined.left])
    total = retrieved(*(int(column.sum()) for column in counts))
    in_hindsight = retrieved_at(mined.best_threshold(), mined.scores, mined.right_answer, int(mined.wanted.sum()))
    others = {
        "precision": total.precision,
        "recall": total.recall,
        "F1, threshold in hindsight": in_hindsight.f1,
        "threshold": float(thresholds.mean()),
    }
    sample = f1(*counts, f"{haystack.set} {haystack.subset} {haystack.split}")
    shown = ("precision", "recall")
    return TaskScore(table, haystack.subset, MEASURE, sample, others, haystack.origin, shown=shown, note=note)


@dataclass(frozen=True, slots=True, eq=False)
class MinedPairs:
    """Mined pairs as rows of their sentences, with their margins, and which of them are gold."""

    left: IntArray
    scores: Doubles
    right_answer: BoolArray
    wanted: IntArray  # gold pairs of each left sentence

    def best_threshold(self, among: BoolArray | None = None) -> float:
        """The threshold with the highest F1, over all left sentences or those in a mask."""
        rows = np.ones(len(self.wanted), dtype=np.bool_) if among is None else among
        pairs = rows[self.left]
        return best_threshold(self.scores[pairs], self.right_answer[pairs], int(self.wanted[rows].sum()))

    def counts(self, taken: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """For each left sentence, the number of pairs that are taken and correct, taken, and gold."""
        rows = len(self.wanted)
        right = np.bincount(self.left[taken & self.right_answer], minlength=rows)
        return right.astype(np.int64), np.bincount(self.left[taken], minlength=rows).astype(np.int64), self.wanted


def mine_haystack(haystack: Haystack, space: Space, k: int = K) -> MinedPairs:
    """Mine a haystack; each sentence is used at most once."""
    times = [Counter(texts) for texts in haystack.texts]
    vectors = [space.of(list(own), code) for own, code in zip(times, haystack.languages, strict=True)]
    left, right = both_ways(vectors[0], vectors[1], k)
    found = matched(left, right, *candidate_scores(left, right), strategy="max")
    row_of = [{text: row for row, text in enumerate(texts)} for texts in haystack.texts]
    rows = [
        np.array([known[text] if count == 1 else -1 for text, count in own.items()])
        for known, own in zip(row_of, times, strict=True)
    ]
    lefts, rights = rows[0][found.left], rows[1][found.right]
    once = (lefts >= 0) & (rights >= 0)
    lefts, rights, scores = lefts[once], rights[once], found.scores[once].astype(np.float64)
    number = [{name: row for row, name in enumerate(ids)} for ids in haystack.ids]
    gold = {(number[0][source], number[1][target]) for source, target in haystack.gold}
    wanted = np.bincount([row for row, _ in gold], minlength=len(haystack.ids[0])).astype(np.int64)
    right_answer = np.array([pair in gold for pair in zip(lefts.tolist(), rights.tolist(), strict=True)], dtype=np.bool_)
    return MinedPairs(lefts, scores, right_answer, wanted)


def halves(ids: Sequence[str]) -> BoolArray:
    """Two halves that depend only on the ids, so they are the same for every model and machine."""
    return np.array([hashlib.blake2b(name.encode(), digest_size=1).digest()[0] & 1 for name in ids], dtype=np.bool_)

"""Semantic textual similarity: whether cosines rank sentence pairs as people do.

The papers report Spearman's correlation × 100 of the cosine with the gold scores. Pearson's, and both for the dot product and
the (negated) Euclidean distance, are in `others`.
"""

from collections.abc import Sequence

from isogloss.evaluation.bootstrap import Correlation, Sample
from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.data.test_sets import RatedPairs
from isogloss.evaluation.metrics import SIMILARITIES, Doubles, pearson, spearman
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.task import Task

MEASURE = "Spearman of cosine"


def sts(table: str, sets: Sequence[RatedPairs]) -> Task:
    """One correlation per set."""
    return Task(sets, lambda space: [_correlation(table, one, space) for one in sets])


def _correlation(table: str, pairs: RatedPairs, space: Space) -> TaskScore:
    scores = similarities(pairs, space)
    others = {}
    for name, values in scores.items():
        others[f"Spearman of {name}"] = spearman(values, pairs.gold)
        others[f"Pearson of {name}"] = pearson(values, pairs.gold)
    sample = Sample.of(Correlation(scores["cosine"], pairs.gold, ((pairs.unit, len(pairs.gold)),)))
    return TaskScore(table, pairs.subset, MEASURE, sample, others, pairs.origin)


def similarities(pairs: RatedPairs, space: Space) -> dict[str, Doubles]:
    """The model's similarity of each pair, by cosine, dot product and distance."""
    left, right = space.columns(pairs)
    return {name: similarity(left, right) for name, similarity in SIMILARITIES.items()}

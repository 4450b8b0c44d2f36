"""Semantic textual similarity: whether cosines rank sentence pairs as people do.

The papers report Spearman's correlation × 100 of the cosine with the gold scores. Pearson's, and both for the dot product and
the (negated) Euclidean distance, are in `others`.
"""

from dataclasses import dataclass

from isogloss.evaluation.bootstrap import Correlation, Sample
from isogloss.evaluation.compare import Measured
from isogloss.evaluation.data.test_sets import RatedPairs
from isogloss.evaluation.metrics import SIMILARITIES, Doubles, pearson, spearman
from isogloss.evaluation.space import Space

MEASURE = "Spearman of cosine"


@dataclass(frozen=True, slots=True, eq=False)
class Sts:
    """Sets of rated pairs in one table."""

    table: str
    sets: tuple[RatedPairs, ...]

    def measure(self, space: Space) -> list[Measured]:
        """One correlation per set."""
        return [self._one(one, space) for one in self.sets]

    def _one(self, pairs: RatedPairs, space: Space) -> Measured:
        scores = similarities(pairs, space)
        others = {}
        for name, values in scores.items():
            others[f"Spearman of {name}"] = spearman(values, pairs.gold)
            others[f"Pearson of {name}"] = pearson(values, pairs.gold)
        sample = Sample.of(Correlation(scores["cosine"], pairs.gold, ((pairs.unit, len(pairs.gold)),)))
        return Measured(self.table, pairs.subset, MEASURE, sample, others, pairs.origin)


def similarities(pairs: RatedPairs, space: Space) -> dict[str, Doubles]:
    """The model's similarity of each pair, by cosine, dot product and distance."""
    left, right = space.columns(pairs)
    return {name: similarity(left, right) for name, similarity in SIMILARITIES.items()}

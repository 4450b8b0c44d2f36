"""Semantic textual similarity: whether cosines rank sentence pairs as people do.

The papers report Spearman's correlation × 100 of the cosine with the gold scores. Pearson's, and both for the dot product and
the (negated) Euclidean distance, are in `others`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isogloss.evaluation.bootstrap import Correlation
from isogloss.evaluation.data.test_sets import RatedPairs
from isogloss.evaluation.metrics import SIMILARITIES, Doubles, pearson, spearman
from isogloss.evaluation.results import Measured
from isogloss.evaluation.space import Space

MEASURE = "Spearman of cosine"


@dataclass(frozen=True, slots=True, eq=False)
class Sts:
    """Sets of rated pairs in one table."""

    table: str
    sets: tuple[RatedPairs, ...]

    def texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Both sides of every set."""
        for pairs in self.sets:
            yield from pairs.sides()

    def measure(self, space: Space) -> list[Measured]:
        """One correlation per set."""
        return [self._one(one, space) for one in self.sets]

    def _one(self, pairs: RatedPairs, space: Space) -> Measured:
        scores = similarities(pairs, space)
        others = {}
        for name, values in scores.items():
            others[f"Spearman of {name}"] = spearman(values, pairs.gold)
            others[f"Pearson of {name}"] = pearson(values, pairs.gold)
        sample = Correlation(scores["cosine"], pairs.gold, pairs.unit)
        return Measured(self.table, pairs.subset, MEASURE, sample, others, pairs.origin)


def similarities(pairs: RatedPairs, space: Space) -> dict[str, Doubles]:
    """The model's similarity of each pair, by cosine, dot product and distance."""
    left, right = space.of(pairs.left, pairs.languages[0]), space.of(pairs.right, pairs.languages[1])
    return {name: similarity(left, right) for name, similarity in SIMILARITIES.items()}

"""A task of a suite. `sts`, `tatoeba`, `mining` and so on make one of a table's title and test sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One measurement of a model: the sets whose sentences it needs, and the scores of their embeddings.

    With a `dimension`, it is for models with embeddings of this size: those that can search a teacher's index.
    """

    sets: Sequence[EvaluationSet]
    measure: Callable[[Space], list[TaskScore]]
    dimension: int | None = None

    def fits(self, dimension: int) -> bool:
        """Whether models with embeddings of this size can be measured."""
        return self.dimension in (None, dimension)

"""The protocol of a task, and the scores that it returns. `suites` combines tasks, `compare` compares models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isogloss.evaluation.bootstrap import Sample
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.leak_report import Origin
from isogloss.evaluation.space import Space


@dataclass(frozen=True, slots=True)
class Measured:
    """The score of one model on one subset of a test set, and further metrics."""

    table: str  # the title of its table
    column: str  # a language, a language pair, or a group
    measure: str  # what `sample` is
    sample: Sample
    others: dict[str, float] = field(default_factory=dict)
    origin: tuple[Origin, ...] = ()  # the files of the test set
    averaged: bool = True  # whether it is part of the table's average
    shown: tuple[str, ...] = ()  # which of the others are shown below it
    note: str = ""


class Task(Protocol):
    """Something to measure a model by: it lists the sentences it needs, and gets their embeddings."""

    @property
    def sets(self) -> Sequence[EvaluationSet]:
        """Every sentence that is needed."""
        ...

    def measure(self, space: Space) -> list[Measured]:
        """Scores for these embeddings."""
        ...

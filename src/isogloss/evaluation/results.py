"""What a task is, and what it finds out about a model. `suites` puts tasks together, `compare` sets models side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isogloss.evaluation.bootstrap import Sample
from isogloss.evaluation.leak_report import Origin
from isogloss.evaluation.space import Space


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on one part of a test set: the measure that counts, and the others."""

    table: str  # the table it stands in
    column: str  # and the place there: a language, a pair of them, a group
    measure: str  # what `sample` is
    sample: Sample
    others: dict[str, float] = field(default_factory=dict)
    origin: tuple[Origin, ...] = ()  # the files of the test set
    averaged: bool = True  # whether it belongs to the table's average
    shown: tuple[str, ...] = ()  # which of the others stand under it in a table
    note: str = ""


class Task(Protocol):
    """Something to measure a model by: it says which sentences it needs, and is given their vectors."""

    @property
    def table(self) -> str:
        """The title of its table."""
        ...

    def texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Every sentence that is needed, by language."""
        ...

    def measure(self, space: Space) -> list[Measured]:
        """What the model that gave these vectors reaches."""
        ...

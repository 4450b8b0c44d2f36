"""Value types that cross folders. They carry data and answer questions about it; they never read, write or train."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

TRAIN, TEST = "train", "test"


class Pair(NamedTuple):
    """A source sentence and one translation of it."""

    source: str
    target: str
    language: str
    corpus: str = ""
    split: str = TRAIN


SCHEMA = pa.schema([(name, pa.string()) for name in Pair._fields])


@dataclass(frozen=True, slots=True, eq=False)
class Bitext:
    """Parallel sentences, column by column: many languages, many corpora, one source language.

    Backed by an Arrow table, so a million pairs stay a few flat buffers and not a million Python objects.
    """

    table: pa.Table
    source_language: str = "en"

    @classmethod
    def of(cls, pairs: Iterable[Pair], source_language: str = "en") -> Self:
        """Gather pairs from any iterable."""
        rows = list(pairs)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
        return cls(pa.Table.from_arrays([pa.array(c, pa.string()) for c in columns], schema=SCHEMA), source_language)

    def __len__(self) -> int:
        """Number of pairs."""
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Pair]:
        """The pairs, one by one."""
        columns = (self.table.column(name).to_pylist() for name in Pair._fields)
        return (Pair(*row) for row in zip(*columns, strict=True))

    def column(self, name: str) -> list[str]:
        """One column as Python strings."""
        values: list[str] = self.table.column(name).to_pylist()
        return values

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages, sorted."""
        return tuple(sorted(self.table.column("language").unique().to_pylist()))

    def sources(self) -> list[str]:
        """Every distinct source sentence, in order of first appearance."""
        values: list[str] = self.table.column("source").unique().to_pylist()
        return values

    def where(self, **wanted: str) -> Self:
        """The pairs whose columns equal the given values: `bitext.where(split="test", language="ko")`."""
        mask = pa.array(np.ones(len(self), dtype=bool))
        for name, value in wanted.items():
            mask = pc.and_(mask, pc.equal(self.table.column(name).combine_chunks(), value))
        return self.keep(mask)

    def keep(self, mask: "BoolArray | pa.Array") -> Self:
        """The pairs for which `mask` is true."""
        return type(self)(self.table.filter(pa.array(mask)), self.source_language)

    def with_column(self, name: str, values: Sequence[str]) -> Self:
        """The same pairs with one column replaced."""
        place = SCHEMA.get_field_index(name)
        table = self.table.set_column(place, name, pa.array(values, pa.string()))
        return type(self)(table, self.source_language)


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """What one model reached in one language. Shares are between 0 and 1; None where it cannot be measured."""

    language: str
    queries: int
    teacher_index: float | None
    to_source: float
    from_source: float
    cosine: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """The scores of one model, language by language, and what they were measured on."""

    model: str
    scores: tuple[LanguageScores, ...]
    candidates: int
    scanned: tuple[str, ...] | None = None  # test sets that the training text was scanned for; None where it is not known

    def average(self) -> LanguageScores:
        """The plain mean over languages: every language counts the same, however many pairs it has."""

        def mean(name: str) -> float | None:
            values = [getattr(score, name) for score in self.scores]
            return None if any(value is None for value in values) else float(np.mean(values))

        return LanguageScores(
            language="average",
            queries=sum(score.queries for score in self.scores),
            teacher_index=mean("teacher_index"),
            to_source=float(np.mean([score.to_source for score in self.scores])),
            from_source=float(np.mean([score.from_source for score in self.scores])),
            cosine=mean("cosine"),
        )

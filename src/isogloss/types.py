"""Value types shared by all folders. They hold data; they never read, write or train."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

TRAIN, TEST = "train", "test"
ROWS_A_BLOCK = 16_384


class Pair(NamedTuple):
    """A source sentence and one translation of it."""

    source: str
    target: str
    language: str
    corpus: str = ""
    split: str = TRAIN


SCHEMA = pa.schema([(name, pa.string()) for name in Pair._fields])


@dataclass(frozen=True, slots=True)
class PairCounts:
    """How many pairs there are of each corpus, language and split."""

    cells: Mapping[tuple[str, str, str], int]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Count the rows of a table with the columns of `SCHEMA`."""
        groups = table.group_by(["corpus", "language", "split"]).aggregate([([], "count_all")]).to_pydict()
        keys = zip(groups["corpus"], groups["language"], groups["split"], strict=True)
        return cls(dict(sorted(zip(keys, groups["count_all"], strict=True))))

    def total(self, corpus: str | None = None, language: str | None = None, split: str | None = None) -> int:
        """Pairs of all cells that fit; `None` fits everything."""
        wanted = (corpus, language, split)
        return sum(
            count
            for cell, count in self.cells.items()
            if all(one in (None, name) for one, name in zip(wanted, cell, strict=True))
        )

    def of_split(self, split: str = TRAIN) -> dict[tuple[str, str], int]:
        """Pairs of a split by corpus and language: what `sampling.shares.plan` takes."""
        return {cell[:2]: count for cell, count in self.cells.items() if cell[2] == split and count}


class PairSource(Protocol):
    """Pairs that can be read repeatedly, block by block: in memory (`Bitext`) or on disk (`Store`)."""

    @property
    def source_language(self) -> str:
        """The language of the source side."""
        ...

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages, sorted."""
        ...

    @property
    def hash(self) -> str:
        """A content hash: equal hashes mean equal pairs in equal order."""
        ...

    def __len__(self) -> int:
        """Number of pairs, of all splits."""
        ...

    def pair_counts(self) -> PairCounts:
        """Pairs by corpus, language and split, without reading the text."""
        ...

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs, or those of one split, with the columns of `SCHEMA`, in blocks and always in the same order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PairView:
    """A `PairSource` made of others: some languages of a store, several stores as one, a sample."""

    source_language: str
    languages: tuple[str, ...]
    hash: str
    counts: PairCounts
    in_blocks: Callable[..., Iterator[pa.Table]]

    def __len__(self) -> int:
        return self.counts.total()

    def pair_counts(self) -> PairCounts:
        """Pairs by corpus, language and split."""
        return self.counts


@dataclass(frozen=True, slots=True, eq=False)
class Bitext:
    """Parallel sentences of many languages and corpora with one source language, as an Arrow table."""

    table: pa.Table
    source_language: str = "en"

    @classmethod
    def of(cls, pairs: Iterable[Pair], source_language: str = "en") -> Self:
        """From any iterable of pairs."""
        rows = list(pairs)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
        return cls(pa.Table.from_arrays([pa.array(c, pa.string()) for c in columns], schema=SCHEMA), source_language)

    def __len__(self) -> int:
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

    def pair_counts(self) -> PairCounts:
        """Pairs by corpus, language and split."""
        return PairCounts.of(self.table)

    @property
    def hash(self) -> str:
        """A content hash of the source language and every column, independent of the table's chunks."""
        lengths, texts = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
        for name in SCHEMA.names:
            for block in self.in_blocks():
                values = block.column(name).cast(pa.string()).combine_chunks()
                ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
                lengths.update(np.diff(ends).tobytes())  # ("ab", "c") and ("a", "bc") differ
                texts.update(memoryview(values.buffers()[2] or b"")[ends[0] : ends[-1]])
        return hashlib.blake2b(self.source_language.encode() + lengths.digest() + texts.digest(), digest_size=16).hexdigest()

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs, or those of one split, in blocks of bounded size."""
        for start in range(0, len(self), ROWS_A_BLOCK):
            block = self.table.slice(start, ROWS_A_BLOCK)
            yield block if split is None else block.filter(pc.equal(block.column("split"), split))

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
    """The scores of a model in one language. Shares are between 0 and 1; None if it cannot be measured."""

    language: str
    queries: int
    teacher_index: float | None
    to_source: float
    from_source: float
    cosine: float | None
    mse: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The scores of a model per language, and the number of candidates."""

    model: str
    scores: tuple[LanguageScores, ...]
    candidates: int
    scanned: tuple[str, ...] | None = None  # test sets that the training data was scanned for; None if unknown

    def average(self) -> LanguageScores:
        """The mean over languages; every language has the same weight."""

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
            mse=mean("mse"),
        )

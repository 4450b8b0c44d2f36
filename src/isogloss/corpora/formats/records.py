"""Pairs that come one at a time, gathered into blocks: for formats whose syntax is too rich to parse by the block."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from isogloss.corpora.formats.assemble import SPLITS, row_error
from isogloss.corpora.reading.blocks import BLOCK_SCHEMA, MAX_ROWS, MAX_TEXT, Blocks
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.malformed import Faults
from isogloss.errors import DataError

_LARGEST = 3.4e38  # of 32-bit numbers


class Record(NamedTuple):
    """A source sentence with its translations, each with its language; one bad value refuses all of it."""

    line: int
    source: str
    targets: Sequence[tuple[str, str]]
    split: str = ""
    score: str | float | None = None


RecordOrFault = Record | DataError


def gathered(records: Iterator[RecordOrFault], name: str, faults: Faults, unit: str = "line") -> Blocks:
    """Blocks of the good records; the others go to `faults`. `unit` is what `Record.line` counts."""
    block = _Block()
    for record in records:
        if isinstance(record, DataError):
            faults.add(record)
            continue
        if block.is_full(len(record.targets)):
            yield block.table()
            block = _Block()
        if not block.add(record):
            targets: list[tuple[str, str | None]] = [(code, text.strip()) for code, text in record.targets]
            place, split = f"{name} {unit} {record.line}", record.split.strip()
            faults.add(row_error(place, record.source.strip(), targets, split, record.score))
    if block.lines:
        yield block.table()


class _Block:
    """Pairs column by column: a Python list per row would cost as much as reading the file."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self._sources: list[str] = []
        self._targets: list[str] = []
        self._languages: list[str] = []
        self._splits: list[str] = []
        self._scores: list[float | None] = []
        self._size = 0

    def is_full(self, coming: int) -> bool:
        """Whether `coming` more pairs are too many."""
        return bool(self.lines) and (len(self.lines) + coming > MAX_ROWS or self._size > MAX_TEXT)

    def add(self, record: Record) -> bool:
        """Add a record; False if anything about it does not fit."""
        line, source, sides, split, score = record
        source, split = source.strip(), split.strip()
        number = None if score is None else _number(score)
        languages = [known_code(code) for code, _ in sides]
        targets = [text.strip() for _, text in sides]
        finite = number is None or abs(number) < _LARGEST  # False for nan
        if not (source and split in SPLITS and all(languages) and all(targets) and finite):
            return False
        count = len(targets)
        self.lines += [line] * count
        self._sources += [source] * count
        self._targets += targets
        self._languages += languages
        self._splits += [split] * count
        self._scores += [number] * count
        self._size += len(source) * count + sum(map(len, targets))
        return True

    def table(self) -> pa.Table:
        """The pairs so far."""
        columns = [self._sources, self._targets, self._languages, self._splits, self._scores, self.lines]
        arrays = [pa.array(column, one.type) for column, one in zip(columns, BLOCK_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=BLOCK_SCHEMA)


@lru_cache(maxsize=1024)
def known_code(code: str) -> str:
    """The canonical form of a code, or "" if it is not shaped like one."""
    code = code.strip()
    return canonical(code) if is_shaped_like_a_code(code) else ""


def _number(value: str | float) -> float | None:
    try:
        return None if value == "" else float(value)
    except (ValueError, OverflowError):
        return math.nan

"""Pairs that come one by one, gathered into blocks: for formats whose syntax is too rich to take apart by the block."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from isogloss.corpora.formats.assemble import empty_side
from isogloss.corpora.reading.blocks import BLOCK_SCHEMA, MAX_ROWS, MAX_TEXT, Blocks
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.malformed import Faults
from isogloss.errors import DataError
from isogloss.types import TEST, TRAIN


class Record(NamedTuple):
    """A source sentence with its translations, each with its language; it counts whole or not at all."""

    line: int
    source: str
    targets: Sequence[tuple[str, str]]
    split: str = ""
    score: str | float | None = None


RecordOrFault = Record | DataError
_LARGEST = 3.4e38  # that 32 bits can hold
_SPLITS = ("", TRAIN, TEST)


def gathered(records: Iterator[RecordOrFault], name: str, faults: Faults, unit: str = "line") -> Blocks:
    """Blocks of the records that fit; the others go to `faults`. `unit` is what the numbers count: lines, entries, rows."""
    block = _Block()
    for record in records:
        if isinstance(record, DataError):
            faults.add(record)
            continue
        if block.is_full(len(record.targets)):
            yield block.table()
            block = _Block()
        if not block.add(record):
            faults.add(_complaint(record, f"{name} {unit} {record.line}"))
    if block.lines:
        yield block.table()


class _Block:
    """Pairs, column by column: a list a row would cost as much as reading the file."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self._sources: list[str] = []
        self._targets: list[str] = []
        self._languages: list[str] = []
        self._splits: list[str] = []
        self._scores: list[float | None] = []
        self._size = 0

    def is_full(self, coming: int) -> bool:
        """Whether the block should be handed on before `coming` more pairs."""
        return bool(self.lines) and (len(self.lines) + coming > MAX_ROWS or self._size > MAX_TEXT)

    def add(self, record: Record) -> bool:
        """Take in a record whole; False if anything about it does not fit."""
        line, source, sides, split, score = record
        source, split = source.strip(), split.strip()
        number = None if score is None else _number(score)
        languages = [known_code(code) for code, _ in sides]
        targets = [text.strip() for _, text in sides]
        if not (source and split in _SPLITS and all(languages) and all(targets)) or not _is_finite(number):
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
        """What was taken in."""
        columns = [self._sources, self._targets, self._languages, self._splits, self._scores, self.lines]
        arrays = [pa.array(column, one.type) for column, one in zip(columns, BLOCK_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=BLOCK_SCHEMA)


def _complaint(record: Record, place: str) -> DataError:
    source, split = record.source.strip(), record.split.strip()
    if split not in _SPLITS:
        return DataError(f"{place}: the split is {split[:40]!r}", hint="it must be train, test, or empty")
    for code, text in record.targets:
        language, target = known_code(code), text.strip()
        if not language:
            what = f"{code[:40]!r}, not a code" if code.strip() else "empty"
            return DataError(f"{place}: the language is {what}", hint="every line needs its language code, such as de")
        if not source or not target:
            return empty_side(place, "source" if not source else f"target ({language})")
    return DataError(f"{place}: the score is {str(record.score)[:40]!r}, not a number", hint="write it like 1.05")


@lru_cache(maxsize=1024)
def known_code(code: str) -> str:
    """The canonical form of a code, or "" if it has not the shape of one."""
    code = code.strip()
    return canonical(code) if is_shaped_like_a_code(code) else ""


def _is_finite(number: float | None) -> bool:
    return number is None or abs(number) < _LARGEST  # not so for nan


def _number(value: str | float) -> float | None:
    try:
        return None if value == "" else float(value)
    except (ValueError, OverflowError):
        return math.nan

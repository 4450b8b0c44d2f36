"""Pairs that come one at a time, gathered into blocks: for formats whose syntax is too rich to parse by the block."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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
    columns: list[list[Any]] = [[] for _ in BLOCK_SCHEMA]  # a Python list per row would cost as much as reading the file
    size = 0
    for record in records:
        if isinstance(record, DataError):
            faults.add(record)
            continue
        if columns[0] and (len(columns[0]) + len(record.targets) > MAX_ROWS or size > MAX_TEXT):
            yield _table(columns)
            columns, size = [[] for _ in BLOCK_SCHEMA], 0
        if values := _checked(record):
            for column, added in zip(columns, values):  # noqa: B905 - in the innermost loop
                column += added
            size += len(values[0]) * len(values[0][0]) + sum(map(len, values[1]))
        else:
            targets: list[tuple[str, str | None]] = [(code, text.strip()) for code, text in record.targets]
            place, split = f"{name} {unit} {record.line}", record.split.strip()
            faults.add(row_error(place, record.source.strip(), targets, split, record.score))
    if columns[0]:
        yield _table(columns)


def _checked(record: Record) -> tuple[list[Any], ...] | None:
    """The values of a record for the columns of a block; None if anything about it does not fit."""
    line, source, sides, split, score = record
    source, split = source.strip(), split.strip()
    number = None if score is None else _number(score)
    languages = [known_code(code) for code, _ in sides]
    targets = [text.strip() for _, text in sides]
    finite = number is None or abs(number) < _LARGEST  # False for nan
    if not (source and split in SPLITS and all(languages) and all(targets) and finite):
        return None
    count = len(targets)
    return [source] * count, targets, languages, [split] * count, [number] * count, [line] * count


def _table(columns: list[list[Any]]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, BLOCK_SCHEMA, strict=True)]
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

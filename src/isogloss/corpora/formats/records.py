"""Pairs that come one at a time, gathered into blocks: for formats whose syntax is too rich to parse by the block."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from isogloss.corpora.formats.assemble import Cells, assemble, trimmed
from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.reading.blocks import MAX_ROWS, MAX_TEXT, Blocks, cut
from isogloss.corpora.reading.malformed import Faults
from isogloss.errors import DataError


class Record(NamedTuple):
    """A source sentence with its translations, each with its language; one bad value refuses all of it."""

    line: int
    source: str
    targets: Sequence[tuple[str, str]]
    split: str = ""
    score: str | float | None = None


RecordOrFault = Record | DataError


def record_of(layout: Layout, values: Sequence[Any], line: int) -> Record:
    """The record in the cells of a row. A null among several translations is skipped."""
    language, split, score = (None if place is None else values[place] for place in layout.further)
    targets = [(code if layout.language is None else language or "", values[place]) for place, code in layout.targets]
    present = [side for side in targets if side[1] is not None] or [(code, "") for code, _ in targets]
    return Record(line, values[layout.source] or "", present, split or "", score)


def gathered(records: Iterator[RecordOrFault], name: str, faults: Faults, unit: str = "line") -> Blocks:
    """Blocks of the good records; the others go to `faults`. `unit` is what `Record.line` counts."""
    columns: tuple[list[Any], ...] = tuple([] for _ in Cells._fields)  # a tuple per row would cost as much as reading it
    lines, sources, targets, languages, splits, scores = columns
    known: dict[int, DataError] = {}
    size = 0

    def block() -> pa.Table:
        cells = Cells(np.array(lines, np.int64), *(trimmed(pa.array(column, pa.string())) for column in columns[1:]))
        return assemble(cells, f"{name} {unit}", faults, known)

    for record in records:
        if isinstance(record, DataError):
            known[-1 - len(known)] = record  # not the number of any line
            record = Record(-len(known), "", [("", "")])
        line, source, sides, split, score = record
        count = len(sides)
        lines += [line] * count
        sources += [source] * count
        targets += [text for _, text in sides]
        languages += [code for code, _ in sides]
        splits += [split] * count
        scores += [None if score is None else str(score)] * count
        size += count * len(source) + sum(len(text) for _, text in sides)
        if len(lines) >= MAX_ROWS or size > MAX_TEXT:
            yield from cut(block())
            size = 0
            known.clear()
            for column in columns:
                column.clear()
    if lines:
        yield from cut(block())

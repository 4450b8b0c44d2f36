"""Read small tables row by row: TSV, CSV, JSONL and Parquet, compressed or not.

Rows of columns with names (JSONL, Parquet) come after a row with these names.
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.amounts import amount
from isogloss.corpora.reading.compression import PARQUET_FAULTS, open_stream
from isogloss.corpora.reading.filenames import format_of
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.errors import DataError
from isogloss.shapes import parse_json

NAMED = ("jsonl", "parquet")  # formats whose columns always have names
FIRST_ROWS = 20  # from which columns without names are found
NumberedRow = tuple[int, list[str]]
Columns = tuple[int, ...]


def read_columns(
    path: Path,
    names: Sequence[Sequence[str]],
    guess: Callable[[Sequence[NumberedRow]], Columns | None],
    hint: str,
    ragged: bool = False,
) -> Iterator[tuple[str, list[str]]]:
    """The cells of some columns of every row, and its place for messages.

    Each column has several possible `names`; without a header, `guess` finds the columns in the first rows. All rows have the
    same number of cells, unless they may be `ragged`.
    """
    table = read_table(path)
    rows = list(islice(table, FIRST_ROWS))
    if not rows:
        return
    header = [cell.strip().strip('"').lower() for cell in rows[0][1]]
    found = [next((header.index(name) for name in known if name in header), None) for known in names]
    columns = tuple(place for place in found if place is not None)
    has_header = len(columns) == len(names)
    if has_header:
        del rows[0]
    elif format_of(path.name) in NAMED:
        raise DataError(f"{path}: its columns are {', '.join(header)[:200]}", hint=hint)
    else:
        columns = guess(rows) or ()
    if not columns:
        first = "\t".join(rows[0][1])[:80]
        raise DataError(f"{path} line {rows[0][0]}: neither a header nor a row of a known layout: {first!r}", hint=hint)
    width = max(columns) + 1 if ragged else len(header) if has_header else len(columns)
    for number, cells in chain(rows, table):
        place = f"{path} line {number}"
        if len(cells) < width or (len(cells) > width and not ragged):
            expected = f"{width} or more" if ragged else f"{width}"
            raise DataError(f"{place}: {amount(len(cells), 'column')}, expected {expected}", hint=hint)
        yield place, [cells[column].strip() for column in columns]


def read_table(path: Path) -> Iterator[NumberedRow]:
    """The rows of a file. Tabs in the first line win: STSb's tab-separated files are called .csv."""
    kind = format_of(path.name)
    if kind == "parquet":
        yield from _parquet_rows(path)
        return
    lines: Iterator[tuple[int, str]] = numbered_lines(path)
    if (first := next(lines, None)) is None:
        return
    lines = chain([first], lines)
    if kind == "jsonl":
        yield from _json_rows(path, lines)
    elif kind == "csv" and "\t" not in first[1]:
        separator = ";" if first[1].count(";") > first[1].count(",") else ","
        yield from csv_rows(str(path), lines, separator)
    else:
        yield from ((number, line.rstrip("\r\n").split("\t")) for number, line in lines if line.strip())


def csv_rows(name: str, lines: Iterable[tuple[int, str]], separator: str = ",") -> Iterator[NumberedRow]:
    """The rows of CSV text, with the number of their last line; blank lines are skipped."""
    reader = csv.reader((line for _, line in lines), delimiter=separator)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        raise DataError(
            f"{name} line {reader.line_num}: not CSV ({error})", hint="is a quote opened and not closed?"
        ) from error


def _json_rows(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[NumberedRow]:
    """The keys of the first object, then the values of every object in that order."""
    header: list[str] = []
    for number, line in ((number, line) for number, line in lines if line.strip()):
        try:
            found = parse_json(line)
        except ValueError as error:
            raise DataError(f"{path} line {number}: not JSON ({str(error)[:60]})", hint="write one object per line") from error
        if not isinstance(found, dict):
            raise DataError(f"{path} line {number}: not a JSON object", hint='write {"NAME": VALUE, …}, one per line')
        if not header:
            header = list(found)
            yield number, header
        yield number, [_text(found.get(name)) for name in header]


def _parquet_rows(path: Path) -> Iterator[NumberedRow]:
    with open_stream(path) as stream:
        data = b"".join(iter(lambda: stream.read(2**20), b""))
    try:
        table = pq.read_table(pa.BufferReader(data))
        rows = table.to_pylist()
    except PARQUET_FAULTS as error:
        raise DataError(f"{path}: not a readable Parquet file ({str(error)[:80]})", hint="download it again") from error
    yield 0, table.column_names
    for number, row in enumerate(rows, 1):
        yield number, [_text(value) for value in row.values()]


def _text(value: object) -> str:
    """A value as a cell; null and NaN are empty."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)

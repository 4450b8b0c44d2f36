"""Text with columns: what its first line says, and cells in double quotes.

Quoted cells may hold separators, line ends, and quotes written twice. The first line of a .csv file shows which of comma,
semicolon and tab separates cells.
"""

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from isogloss.amounts import amount
from isogloss.corpora.formats.layout import Layout, from_header, from_user, parse_columns, positional
from isogloss.corpora.formats.records import RecordOrFault, gathered, record_of
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import LineBlock, numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

SEPARATORS = ",;\t"
MAX_COLUMNS = 10_000  # every column costs time in every block of lines
# Of one record, and of one cell: a quote that is never closed must not consume the rest of the file.
MAX_LINES, MAX_CHARACTERS = 1000, 2**25
FEW_LINES = 10  # of look-ahead gained back per line after such a quote
OPEN = "a quote is opened and not closed"
Line = tuple[int, str | DataError]  # with its number


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a CSV file."""
    opened = read_first_line(source, faults, SEPARATORS, quoted=True)
    if opened is not None:
        yield from quoted_blocks(opened, source, faults)


@dataclass(frozen=True, slots=True)
class Opened:
    """What the first line says, and all lines; a header is blanked out."""

    layout: Layout
    separator: str
    quoted: bool
    lines: Iterator[LineBlock] = iter(())


def read_first_line(source: Source, faults: Faults, separators: str, quoted: bool) -> Opened | None:
    """Understand the first line that is not blank; None if there is none."""
    lines = source.line_blocks()
    for block in lines:
        row = block.first_content()
        if row is not None:
            header, opened = _understand(block.line(row), block.first + row, source, separators, quoted)
            return replace(opened, lines=chain([block.without(row) if header else block], lines))
        for fault in block.faults.values():
            faults.add(fault)
    return None


def _understand(line: str, number: int, source: Source, separators: str, quoted: bool) -> tuple[bool, Opened]:
    """Whether the first line is a header, and what it says about the others."""
    columns = parse_columns(source.columns)
    quoted = quoted or columns.quoted
    most = max(line.count(separator) for separator in separators) + 1
    if most > MAX_COLUMNS:
        raise DataError(
            f"{source.name} line {number}: {amount(most, 'column')}, more than {MAX_COLUMNS:,}",
            hint="is it a table of sentence pairs?",
        )
    likely = next((one for one in separators if len(_cells(line, one, quoted=True)) > 1), separators[0])
    if columns.places:
        names = [name.strip() for name in _cells(line, likely, quoted or '"' in line)]
        header = columns.by_name or columns.header
        return header, Opened(from_user(columns, names if header else None, source, number), likely, quoted)
    for separator in separators:
        for in_quotes in (quoted,) if quoted or '"' not in line else (False, True):
            if layout := from_header(_cells(line, separator, in_quotes), source, number):
                return True, Opened(layout, separator, in_quotes)
    return False, Opened(positional(source), likely, quoted)


def _cells(line: str, separator: str, quoted: bool) -> list[str]:
    def lines() -> Iterator[str]:
        yield line
        raise csv.Error(OPEN)  # the reader asks for more only if a quote is open

    return (_next_cells(csv.reader(lines(), delimiter=separator)) if quoted else None) or line.split(separator)


def names_its_languages(source: Source) -> bool:
    """Whether a file whose name does not say the language has a header that does. If not, it may not be a corpus."""
    quoted = source.format == "csv"
    try:
        return read_first_line(source, Faults("skip"), SEPARATORS if quoted else "\t", quoted) is not None
    except DataError as error:
        return "the target language is not known" not in error.message and "not text" not in error.message


def quoted_blocks(opened: Opened, source: Source, faults: Faults) -> Blocks:
    """The pairs of quoted text after its first line."""
    return gathered(_records(opened, source), source.name, faults)


def _next_cells(reader: Iterator[list[str]]) -> list[str] | None:
    """The cells of the next record; None if a quote stays open, or a carriage return is not quoted."""
    usual = csv.field_size_limit(MAX_CHARACTERS)
    try:
        return next(reader)
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(usual)  # it is global


def _records(opened: Opened, source: Source) -> Iterator[RecordOrFault]:
    width = opened.layout.width
    for number, cells in _split(numbered(opened.lines), opened.separator):
        if cells is None:
            hint = f"write a quote inside a quoted cell twice; or {SKIPPING}"
            yield DataError(f"{source.name} line {number}: {OPEN}", hint=hint)
        elif isinstance(cells, DataError):
            yield cells
        elif len(cells) < width:
            yield too_few(f"{source.name} line {number}", len(cells), width)
        else:
            yield record_of(opened.layout, cells, number)


def _split(lines: Iterator[Line], separator: str) -> Iterator[tuple[int, list[str] | DataError | None]]:
    """The cells of every record. A line whose quote is not closed within `MAX_LINES` has none, and the next is a record."""
    record: list[Line] = []  # the lines of a quoted record
    ahead: deque[Line] = deque()  # lines to be read again, since a quote before them stayed open
    most = MAX_LINES

    def next_line() -> str:
        if following := ahead.popleft() if ahead else next(lines, None):
            record.append(following)
            if isinstance(following[1], str) and len(record) <= most + 1:
                return following[1]
        raise csv.Error(OPEN)

    reader = csv.reader(iter(next_line, None), delimiter=separator)
    while first := ahead.popleft() if ahead else next(lines, None):
        number, line = first
        most = min(most + FEW_LINES, MAX_LINES)
        if isinstance(line, DataError):
            yield number, line
        elif '"' in line:
            ahead.appendleft(first)
            record.clear()
            cells = _next_cells(reader)
            if cells is None:
                most = 0  # do not look as far ahead again from the next line
                ahead.extendleft(reversed(record[1:]))
            yield number, cells
        elif line.strip():
            yield number, line.rstrip("\r\n").split(separator)


def too_few(place: str, found: int, wanted: int) -> DataError:
    """The error for a line with too few columns."""
    return DataError(f"{place}: {amount(found, 'column')}, expected {wanted} or more", hint=f"is it tab-separated? {SKIPPING}")

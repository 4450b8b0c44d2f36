"""Text with columns: what its first line says, and cells in double quotes.

Quoted cells may hold separators, line ends, and quotes written twice. The first line of a .csv file shows which of comma,
semicolon and tab separates cells.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

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
# Of one record: a quote that is never closed must not consume the rest of the file.
MAX_LINES, MAX_CHARACTERS = 1000, 2**24
FEW_LINES = 10  # of look-ahead gained back per line after such a quote


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
    return (split_quoted([line], separator)[0] if quoted else None) or line.split(separator)


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


def split_quoted(lines: Iterable[str], separator: str) -> tuple[list[str] | None, int]:
    """The cells of the first record, and its lines; no cells if a quote stays open, or a carriage return is not quoted."""
    ended = False

    def watched() -> Iterator[str]:
        nonlocal ended
        yield from lines
        ended = True  # the reader asks for more only if a quote is open

    usual = csv.field_size_limit(2 * MAX_CHARACTERS)
    reader = csv.reader(watched(), delimiter=separator)
    try:
        cells = next(reader)
    except csv.Error:
        return None, 1
    finally:
        csv.field_size_limit(usual)  # it is global
    return (None, 1) if ended else (cells, reader.line_num)


def _records(opened: Opened, source: Source) -> Iterator[RecordOrFault]:
    """A line whose quote is not closed within `MAX_LINES` is bad, and the next is a record."""
    lines, separator, width = numbered(opened.lines), opened.separator, opened.layout.width
    ahead: list[tuple[int, str | DataError]] = []  # lines that were read while a quote was open
    most = MAX_LINES
    while following := ahead.pop(0) if ahead else next(lines, None):
        number, line = following
        most = min(most + FEW_LINES, MAX_LINES)
        if isinstance(line, DataError):
            yield line
        elif line.strip():
            cells: list[str] | None = line.rstrip("\r\n").split(separator)
            if '"' in line:
                cells, used = split_quoted(chain([line], _look_ahead(ahead, lines, most)), separator)
                del ahead[: used - 1]
            if cells is None:
                most = 0  # do not look as far ahead again from the next line
                hint = f"write a quote inside a quoted cell twice; or {SKIPPING}"
                yield DataError(f"{source.name} line {number}: a quote is opened and not closed", hint=hint)
            elif len(cells) < width:
                yield too_few(f"{source.name} line {number}", len(cells), width)
            else:
                yield record_of(opened.layout, cells, number)


def _look_ahead(
    ahead: list[tuple[int, str | DataError]], lines: Iterator[tuple[int, str | DataError]], most: int
) -> Iterator[str]:
    """At most `most` of the following lines, which are kept in `ahead`."""
    length = 0
    for place in range(most):
        if place == len(ahead):
            ahead.extend(islice(lines, 1))
        line = ahead[place][1] if place < len(ahead) else None
        if not isinstance(line, str) or length > MAX_CHARACTERS:
            return
        length += len(line)
        yield line


def too_few(place: str, found: int, wanted: int) -> DataError:
    """The error for a line with too few columns."""
    return DataError(f"{place}: {amount(found, 'column')}, expected {wanted} or more", hint=f"is it tab-separated? {SKIPPING}")

"""Text with columns: what its first line says, and cells in double quotes.

Quoted cells may hold separators, line ends, and quotes written twice. The first line of a .csv file shows which of comma,
semicolon and tab separates cells.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from isogloss.amounts import amount
from isogloss.corpora.formats.layout import Layout, UserColumns, from_header, from_user, parse_columns, positional
from isogloss.corpora.formats.records import RecordOrFault, gathered, record_of
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import LineBlock, line_blocks, numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

SEPARATORS = ",;\t"
MAX_COLUMNS = 10_000  # each of them is looked at for every block of lines
# Of one record: a quote that is never closed must not consume the rest of the file.
MAX_LINES, MAX_CHARACTERS = 1000, 2**24
FEW_LINES = 10  # of look-ahead gained back per line after such a quote


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a CSV file."""
    with source.open() as stream:
        opened = read_first_line(line_blocks(stream, source.name), source, faults, SEPARATORS, quoted=True)
        if opened is not None:
            yield from quoted_blocks(opened, source, faults)


@dataclass(frozen=True, slots=True)
class Opened:
    """What the first line says, and all lines; a header is blanked out."""

    layout: Layout
    separator: str
    quoted: bool
    lines: Iterator[LineBlock]


def read_first_line(lines: Iterator[LineBlock], source: Source, faults: Faults, separators: str, quoted: bool) -> Opened | None:
    """Understand the first line that is not blank; None if there is none."""
    columns = parse_columns(source.columns)
    for block in lines:
        row = block.first_content()
        if row is not None:
            found = _understand(block.line(row), block.first + row, source, columns, separators, quoted or columns.quoted)
            layout, separator, in_quotes, header = found
            return Opened(layout, separator, in_quotes, chain([block.without(row) if header else block], lines))
        for fault in block.faults.values():
            faults.add(fault)
    return None


def _understand(
    line: str, number: int, source: Source, columns: UserColumns, separators: str, quoted: bool
) -> tuple[Layout, str, bool, bool]:
    """The layout, the separator, whether cells are quoted, and whether the line is a header."""
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
        return from_user(columns, names if header else None, source, number), likely, quoted, header
    for separator in separators:
        for in_quotes in (quoted,) if quoted or '"' not in line else (False, True):
            if layout := from_header(_cells(line, separator, in_quotes), source, number):
                return layout, separator, in_quotes, True
    return positional(source), likely, quoted, False


def _cells(line: str, separator: str, quoted: bool) -> list[str]:
    return (split_quoted([line], separator) if quoted else None) or line.split(separator)


def names_its_languages(source: Source, separators: str, quoted: bool) -> bool:
    """Whether a file whose name does not say the language has a header that does. If not, it may not be a corpus."""
    try:
        with source.open() as stream:
            return read_first_line(line_blocks(stream, source.name), source, Faults("skip"), separators, quoted) is not None
    except DataError as error:
        return "the target language is not known" not in error.message and "not text" not in error.message


def quoted_blocks(opened: Opened, source: Source, faults: Faults) -> Blocks:
    """The pairs of quoted text after its first line."""
    return gathered(_records(opened, source), source.name, faults)


def split_quoted(lines: Iterable[str], separator: str) -> list[str] | None:
    """The cells of the first record; None if a quote is still open at the end, or a carriage return is not in quotes."""
    ended = False

    def watched() -> Iterator[str]:
        nonlocal ended
        yield from lines
        ended = True  # the reader asks for more only if a quote is open

    usual = csv.field_size_limit(2 * MAX_CHARACTERS)
    try:
        cells = next(csv.reader(watched(), delimiter=separator))
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(usual)  # it is global
    return None if ended else cells


def _strictly(line: str, separator: str) -> list[str] | None:
    """The cells of a record on one line; None if it is not quoted by the book. Most are, and this is faster."""
    try:
        return next(csv.reader((line,), delimiter=separator, strict=True))
    except csv.Error:
        return None


class _Lines:
    """Numbered lines that can be read ahead, while a quote is open."""

    def __init__(self, blocks: Iterable[LineBlock]) -> None:
        self._lines = numbered(blocks)
        self._ahead: list[tuple[int, str | DataError]] = []
        self._looked_at = 0

    def __iter__(self) -> Iterator[tuple[int, str | DataError]]:
        while following := self._ahead.pop(0) if self._ahead else next(self._lines, None):
            yield following

    def record(self, line: str, separator: str, most: int) -> list[str] | None:
        """The cells of a record that begins with `line` and goes on for at most `most` lines, which are then used up."""
        cells = split_quoted(chain([line], self._following(most)), separator)
        if cells is not None:
            del self._ahead[: self._looked_at]
        return cells

    def _following(self, most: int) -> Iterator[str]:
        self._looked_at = length = 0
        while self._looked_at < most and length <= MAX_CHARACTERS:
            if self._looked_at == len(self._ahead):
                self._ahead += [following] if (following := next(self._lines, None)) else []
            if self._looked_at == len(self._ahead) or isinstance(line := self._ahead[self._looked_at][1], DataError):
                return
            self._looked_at, length = self._looked_at + 1, length + len(line)
            yield line


def _records(opened: Opened, source: Source) -> Iterator[RecordOrFault]:
    """A line whose quote is not closed within `MAX_LINES` is bad, and the next is a record."""
    lines, ahead, separator = _Lines(opened.lines), MAX_LINES, opened.separator
    layout, width = opened.layout, opened.layout.width
    for number, line in lines:
        ahead = min(ahead + FEW_LINES, MAX_LINES)
        cells: list[str] | None = []
        if isinstance(line, DataError):
            yield line
        elif '"' in line:
            cells = _strictly(line, separator) or lines.record(line, separator, ahead)
        elif line.strip():
            cells = line.rstrip("\r\n").split(separator)
        if cells is None:
            ahead = 0  # do not look as far ahead again from the next line
            yield DataError(
                f"{source.name} line {number}: a quote is opened and not closed",
                hint=f"write a quote inside a quoted cell twice; or {SKIPPING}",
            )
        elif cells:
            fits = len(cells) >= width
            yield record_of(layout, cells, number) if fits else too_few(f"{source.name} line {number}", len(cells), width)


def too_few(place: str, found: int, wanted: int) -> DataError:
    """The error for a line with too few columns."""
    return DataError(f"{place}: {amount(found, 'column')}, expected {wanted} or more", hint=f"is it tab-separated? {SKIPPING}")

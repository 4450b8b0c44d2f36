"""The first line of a text file with columns: header, separator, quotes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from isogloss.amounts import amount
from isogloss.corpora.formats.layout import Layout, UserColumns, from_header, from_user, parse_columns, positional
from isogloss.corpora.formats.quoted import split_quoted
from isogloss.corpora.reading.lines import LineBlock, line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

MAX_COLUMNS = 10_000  # each of them is looked at for every block of lines


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
        if row is None:
            for fault in block.faults.values():
                faults.add(fault)
            continue
        line, number = block.line(row), block.first + row
        found = _understand(line, number, source, columns, separators, quoted or columns.quoted)
        layout, separator, in_quotes, header = found
        return Opened(layout, separator, in_quotes, chain([block.without(row) if header else block], lines))
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
    if columns.places:
        separator = _likely(line, separators)
        names = [name.strip() for name in cells_of(line, separator, quoted or '"' in line)]
        header = columns.by_name or columns.header
        return from_user(columns, names if header else None, source, number), separator, quoted, header
    for separator in separators:
        for in_quotes in (quoted,) if quoted or '"' not in line else (False, True):
            if layout := from_header(cells_of(line, separator, in_quotes), source, number):
                return layout, separator, in_quotes, True
    return positional(source), _likely(line, separators), quoted, False


def cells_of(line: str, separator: str, quoted: bool) -> list[str]:
    """The cells of one line."""
    return (split_quoted(line, separator) if quoted else None) or line.split(separator)


def _likely(line: str, separators: str) -> str:
    return next((one for one in separators if len(cells_of(line, one, quoted=True)) > 1), separators[0])


def names_its_languages(source: Source, separators: str, quoted: bool) -> bool:
    """Whether a file whose name does not say the language has a header that does. If not, it may not be a corpus."""
    try:
        with source.open() as stream:
            return read_first_line(line_blocks(stream, source.name), source, Faults("skip"), separators, quoted) is not None
    except DataError as error:
        return "the target language is not known" not in error.message and "not text" not in error.message

"""Cells in double quotes, as in CSV: they may hold separators, line ends, and quotes written twice."""

from collections.abc import Iterator

from isogloss.amounts import amount
from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import LineBlock, numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

# Of one record: a quote that is never closed must not consume the rest of the file.
MAX_LINES, MAX_CHARACTERS = 1000, 2**24
FEW_LINES = 10  # of look-ahead gained back per line after such a quote


def split_quoted(text: str, separator: str) -> list[str] | None:
    """The cells of one record, unquoted; None if its last quote is still open. A quote inside a cell is text."""
    cells, opened = _cells(text, separator)
    return cells if opened is None else None


def _cells(text: str, separator: str) -> tuple[list[str], int | None]:
    """The complete cells, and where a quote is still open after them (None: nowhere)."""
    if '"' not in text:
        return text.split(separator), None
    cells: list[str] = []
    place = 0
    while True:
        start, content = place, ""
        if text.startswith('"', place):
            close = _closing(text, place + 1)
            if close is None:
                return cells, place
            content = text[place + 1 : close].replace('""', '"')
            start = close + 1
        end = text.find(separator, start)
        cells.append(content + text[start : None if end < 0 else end])
        if end < 0:
            return cells, None
        place = end + 1


def _closing(text: str, place: int) -> int | None:
    """Where the quote that was opened before `place` closes."""
    while (close := text.find('"', place)) >= 0:
        if text[close + 1 : close + 2] != '"':
            return close
        place = close + 2
    return None


def blocks_of(lines: Iterator[LineBlock], separator: str, layout: Layout, source: Source, faults: Faults) -> Blocks:
    """The pairs of quoted text."""
    return gathered(_records(lines, separator, layout, source), source.name, faults)


def _records(lines: Iterator[LineBlock], separator: str, layout: Layout, source: Source) -> Iterator[RecordOrFault]:
    for number, cells in _split(lines, separator, source):
        yield cells if isinstance(cells, DataError) else _record(cells, number, layout, source)


def _split(blocks: Iterator[LineBlock], separator: str, source: Source) -> Iterator[tuple[int, list[str] | DataError]]:
    """Records with their line numbers. A line whose quote is not closed within `MAX_LINES` is bad, and the next is a record."""
    lines = numbered(blocks)
    waiting: list[tuple[int, str | DataError]] = []  # read ahead, while a quote was open
    ahead = MAX_LINES
    while True:
        ahead = min(ahead + FEW_LINES, MAX_LINES)
        number, line = waiting.pop(0) if waiting else next(lines, (0, ""))
        if not number:
            return
        if isinstance(line, DataError):
            yield number, line
        elif line.strip():
            cells, opened = _cells(line.rstrip("\r\n"), separator)
            if opened is None:
                yield number, cells
            else:
                rest = _continued(line[opened:], waiting, lines, separator, source, number, ahead)
                if isinstance(rest, DataError):
                    ahead = 0  # do not look as far ahead again from the next line
                yield number, rest if isinstance(rest, DataError) else [*cells, *rest]


def _continued(
    line: str,
    waiting: list[tuple[int, str | DataError]],
    lines: Iterator[tuple[int, str | DataError]],
    separator: str,
    source: Source,
    number: int,
    most: int,
) -> list[str] | DataError:
    """The cells of a record from its open quote on, over at most `most` lines; unused lines stay in `waiting`.

    Pieces of a cell are joined when its quote closes, so text is scanned once.
    """
    cells: list[str] = []
    pieces = [line]
    used, length = 0, len(line)
    while used < most and length <= MAX_CHARACTERS:
        if used == len(waiting):
            if (following := next(lines, None)) is None:
                break
            waiting.append(following)
        piece = waiting[used][1]
        if isinstance(piece, DataError):
            break
        used, length = used + 1, length + len(piece)
        pieces.append(piece)
        if _closing(piece, 0) is None:  # no pair of quotes lies across a line end
            continue
        text = "".join(pieces)
        more, opened = _cells(text.rstrip("\r\n"), separator)
        cells += more
        if opened is None:
            del waiting[:used]
            return cells
        pieces = [text[opened:]]
    return DataError(
        f"{source.name} line {number}: a quote is opened and not closed",
        hint=f"write a quote inside a quoted cell twice; or {SKIPPING}",
    )


def _record(cells: list[str], number: int, layout: Layout, source: Source) -> RecordOrFault:
    if len(cells) < layout.width:
        return too_few(f"{source.name} line {number}", len(cells), layout.width)
    language = cells[layout.language] if layout.language is not None else None
    targets = [(code if language is None else language, cells[column]) for column, code in layout.targets]
    split = cells[layout.split] if layout.split is not None else ""
    score = cells[layout.score].strip() if layout.score is not None else None
    return Record(number, cells[layout.source], targets, split, score)


def too_few(place: str, found: int, wanted: int) -> DataError:
    """The error for a line with too few columns."""
    return DataError(f"{place}: {amount(found, 'column')}, expected {wanted} or more", hint=f"is it tab-separated? {SKIPPING}")

"""Cells in double quotes, as in CSV: a quoted cell may hold separators, line ends, and quotes written twice."""

from collections.abc import Iterator

from isogloss.amounts import amount
from isogloss.corpora.blocks import Blocks
from isogloss.corpora.faults import SKIPPING, Faults
from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.lines import LineBlock
from isogloss.corpora.sources import Source
from isogloss.errors import DataError

MAX_LINES = 1000  # of one cell: a quote that is never closed must not swallow the rest of the file


def split_quoted(text: str, separator: str) -> list[str] | None:
    """The cells of one record, unquoted; None if its last quote is still open. Only a quote that begins a cell counts."""
    if '"' not in text:
        return text.split(separator)
    cells: list[str] = []
    place = 0
    while True:
        start, content = place, ""
        if text.startswith('"', place):
            close = _closing(text, place + 1)
            if close is None:
                return None
            content = text[place + 1 : close].replace('""', '"')
            start = close + 1
        end = text.find(separator, start)
        cells.append(content + text[start : None if end < 0 else end])
        if end < 0:
            return cells
        place = end + 1


def _closing(text: str, place: int) -> int | None:
    """Where the quote closes that was opened before `place`."""
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
    """Numbered records as cells. A line whose quote is not closed within `MAX_LINES` is bad, and the next is read afresh."""
    lines = _numbered(blocks)
    waiting: list[tuple[int, str | DataError]] = []  # read ahead, while a quote was open
    while True:
        number, line = waiting.pop(0) if waiting else next(lines, (0, ""))
        if not number:
            return
        if isinstance(line, DataError):
            yield number, line
        elif line.strip():
            cells = split_quoted(line.rstrip("\r\n"), separator)
            yield number, cells if cells is not None else _continued(line, waiting, lines, separator, source, number)


def _continued(
    line: str,
    waiting: list[tuple[int, str | DataError]],
    lines: Iterator[tuple[int, str | DataError]],
    separator: str,
    source: Source,
    number: int,
) -> list[str] | DataError:
    """The cells of a record that goes on over the next lines; what is not used of them stays in `waiting`."""
    pieces = [line]
    used = 0
    while used < MAX_LINES:
        if used == len(waiting):
            if (following := next(lines, None)) is None:
                break
            waiting.append(following)
        piece = waiting[used][1]
        if isinstance(piece, DataError):
            break
        used += 1
        pieces.append(piece)
        if '"' in piece and (cells := split_quoted("".join(pieces).rstrip("\r\n"), separator)) is not None:
            del waiting[:used]
            return cells
    return DataError(
        f"{source.name} line {number}: a quote is opened and not closed",
        hint=f"write a quote inside a quoted cell twice; or {SKIPPING}",
    )


def _numbered(blocks: Iterator[LineBlock]) -> Iterator[tuple[int, str | DataError]]:
    for block in blocks:
        for row, line in enumerate(block.text().to_pylist()):
            yield block.first + row, block.faults.get(row, line)


def _record(cells: list[str], number: int, layout: Layout, source: Source) -> RecordOrFault:
    if len(cells) < layout.width:
        return too_few(f"{source.name} line {number}", len(cells), layout.width)
    language = cells[layout.language] if layout.language is not None else None
    targets = [(code if language is None else language, cells[column]) for column, code in layout.targets]
    split = cells[layout.split] if layout.split is not None else ""
    score = cells[layout.score].strip() if layout.score is not None else None
    return Record(number, cells[layout.source], targets, split, score)


def too_few(place: str, found: int, wanted: int) -> DataError:
    """A line has not all the columns that are read."""
    return DataError(f"{place}: {amount(found, 'column')}, expected {wanted} or more", hint=f"is it tab-separated? {SKIPPING}")

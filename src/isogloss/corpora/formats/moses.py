"""Moses text: two line-aligned files, and optionally a third with a score per line."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from isogloss.corpora.formats.assemble import BLANK, Cells, assemble, empty_side, marked, trimmed
from isogloss.corpora.formats.layout import target_language
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.compression import open_stream
from isogloss.corpora.reading.lines import LineBlock, line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError


class _Side:
    """One of the files, given out in stretches that the others also have."""

    def __init__(self, path: Path, member: str, opened: ExitStack) -> None:
        self.name = f"{path}:{member}" if member else str(path)
        self._blocks = line_blocks(opened.enter_context(open_stream(path, member)), self.name)
        self._block: LineBlock | None = None
        self._text = pa.array([], pa.string())
        self._used = 0
        self.count = 0  # lines given out

    def left(self) -> int:
        """How many lines are ready; 0 only at the end of the file."""
        if self._used == len(self._text) and (block := next(self._blocks, None)) is not None:
            self._block, self._text, self._used = block, trimmed(block.text()), 0
        return len(self._text) - self._used

    def take(self, count: int) -> tuple[pa.Array, dict[int, DataError]]:
        """The next lines, and the faults among them by row."""
        text = self._text.slice(self._used, count)
        known = self._block.faults if self._block is not None else {}
        faults = {row - self._used: fault for row, fault in known.items() if self._used <= row < self._used + count}
        self._used += count
        self.count += count
        return text, faults

    def total(self) -> int:
        """How many lines the file has; reads the rest of it."""
        while count := self.left():
            self.take(count)
        return self.count


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of two line-aligned files; different numbers of lines are an error, since then no pair can be trusted."""
    if source.other is None and not source.other_member:
        raise DataError(f"{source.name}: its other file is not known", hint="Moses text is two files: name both")
    with ExitStack() as opened:
        places = [(source.path, source.member), (source.other or source.path, source.other_member)]
        if source.scores is not None or source.scores_member:
            places.append((source.scores or source.path, source.scores_member))
        sides = [_Side(path, member, opened) for path, member in places]
        while count := min(side.left() for side in sides):
            yield from cut(_pairs(sides, count, source, faults))
        if any(side.left() for side in sides):
            totals = ", ".join(f"{side.name} has {side.total():,}" for side in sides)
            raise DataError(f"the files have different numbers of lines: {totals}", hint="get both again, from one release")


def _pairs(sides: list[_Side], count: int, source: Source, faults: Faults) -> pa.Table:
    first = sides[0].count + 1
    taken = [side.take(count) for side in sides]
    known: dict[int, DataError] = {row: fault for _, found in reversed(taken) for row, fault in found.items()}
    texts = [text for text, _ in taken]
    language = target_language(source)

    def explain(row: int) -> DataError | None:
        if fault := known.get(row):
            return fault
        original, translation = bool(texts[0][row].as_py()), bool(texts[1][row].as_py())
        if not original and not translation:
            return BLANK
        if original and not translation:
            return empty_side(f"{sides[1].name} line {first + row}", f"target ({language})")
        return None

    lines = np.arange(first, first + count, dtype=np.int64)
    cells = Cells(lines, texts[0], ((texts[1], language),), score=texts[2] if len(texts) > 2 else None)
    return assemble(cells, f"{sides[0].name} line", faults, explain, marked(known, count))

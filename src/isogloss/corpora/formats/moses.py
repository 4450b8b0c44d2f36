"""Moses text: two line-aligned files, and optionally a third with a score per line."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.formats.assemble import BLANK, assemble, by_translation, empty_side, trimmed
from isogloss.corpora.formats.layout import Layout, target_language
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.compression import open_stream
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError


class _Side:
    """One of the files, given out in stretches that the others also have."""

    def __init__(self, path: Path, member: str, opened: ExitStack) -> None:
        self.name = f"{path}:{member}" if member else str(path)
        self._blocks = line_blocks(opened.enter_context(open_stream(path, member)), self.name)
        self.faults: dict[int, DataError] = {}  # of the block that is being given out
        self._text = pa.array([], pa.string())
        self._used = 0
        self.count = 0  # lines given out

    def left(self) -> int:
        """How many lines are ready; 0 only at the end of the file."""
        if self._used == len(self._text) and (block := next(self._blocks, None)) is not None:
            self.faults, self._text, self._used = block.faults, trimmed(block.text()), 0
        return len(self._text) - self._used

    def take(self, count: int) -> pa.Array:
        """The next lines."""
        text = self._text.slice(self._used, count)
        self._used += count
        self.count += count
        return text

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
    texts = [side.take(count) for side in sides]
    language = target_language(source)
    known = {}
    for row in np.flatnonzero(pc.equal(texts[1], "").to_numpy(zero_copy_only=False)).tolist():
        line = first + row
        known[line] = empty_side(f"{sides[1].name} line {line}", f"target ({language})") if texts[0][row].as_py() else BLANK
    for side in reversed(sides):
        known |= side.faults
    layout = Layout(0, ((1, language),), score=2 if len(texts) > 2 else None)
    cells = by_translation(layout, texts.__getitem__, np.arange(first, first + count))
    return assemble(cells, f"{sides[0].name} line", faults, known)

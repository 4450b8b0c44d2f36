"""Tab-separated text: two columns, one column per language, or columns by name. Blocks are parsed at once.

Cells are not quoted: a double quote is an ordinary character, since many sentences begin with one. A file with a quoted header
is CSV with tabs, and so is one with `quoted` in `columns`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from isogloss.corpora.formats.assemble import assemble, by_translation, line_faults, trimmed
from isogloss.corpora.formats.csv import quoted_blocks, read_first_line, too_few
from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.lines import LINE_FEED, TAB, LineBlock, line_blocks, strings_over
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError
from isogloss.types import IntArray

SEPARATORS = "\t"


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a TSV file."""
    with source.open() as stream:
        opened = read_first_line(line_blocks(stream, source.name), source, faults, SEPARATORS, quoted=False)
        if opened is None:
            return
        if opened.quoted:
            yield from quoted_blocks(opened, source, faults)
            return
        for block in opened.lines:
            yield from cut(_pairs(block, opened.layout, source, faults))


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a block without a copy of it: each is a stretch of its bytes, with the tab or line end after it."""

    cells: pa.StringArray
    first: IntArray  # the first cell of each line
    widths: IntArray  # how many cells each line has

    @classmethod
    def over(cls, block: LineBlock) -> "Grid":
        """Find every tab and line end."""
        raw = np.frombuffer(block.data, np.uint8)
        bounds = np.flatnonzero((raw == TAB) | (raw == LINE_FEED)) + 1
        ends = np.searchsorted(bounds, block.starts[1:])  # the cell each line ends with
        if len(block) and (not len(bounds) or bounds[-1] != len(raw)):
            bounds = np.append(bounds, len(raw))
        first = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
        return cls(strings_over(block.data, np.concatenate([np.zeros(1, np.int64), bounds])), first, ends - first + 1)

    def column(self, place: int) -> pa.Array:
        """One cell of each line, trimmed; null where the line is too short."""
        return trimmed(self.cells.take(pa.array(self.first + place, mask=self.widths <= place)))


def _pairs(block: LineBlock, layout: Layout, source: Source, faults: Faults) -> pa.Table:
    grid = Grid.over(block)

    def explain(row: int) -> DataError:
        return too_few(f"{source.name} line {block.first + row}", int(grid.widths[row]), layout.width)

    cells = by_translation(layout, grid.column, block.numbers)
    return assemble(cells, f"{source.name} line", faults, line_faults(block, grid.widths < layout.width, explain))

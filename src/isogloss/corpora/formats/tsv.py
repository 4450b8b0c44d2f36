"""Tab-separated text: two columns, one column per language, or columns by name. Blocks of lines are parsed together.

Cells are not quoted: a double quote is an ordinary character, since many sentences begin with one. A file with a quoted header
is CSV with tabs, and so is one with `quoted` in `columns`.
"""

import numpy as np
import pyarrow as pa

from isogloss.corpora.formats.assemble import assemble, by_translation, line_faults, trimmed
from isogloss.corpora.formats.csv import quoted_blocks, read_first_line, too_few
from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.lines import LINE_FEED, TAB, LineBlock, strings_over
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

SEPARATORS = "\t"


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a TSV file."""
    opened = read_first_line(source, faults, SEPARATORS, quoted=False)
    if opened is not None and opened.quoted:
        yield from quoted_blocks(opened, source, faults)
    elif opened is not None:
        for block in opened.lines:
            yield from cut(_pairs(block, opened.layout, source, faults))


def _pairs(block: LineBlock, layout: Layout, source: Source, faults: Faults) -> pa.Table:
    raw = np.frombuffer(block.data, np.uint8)
    bounds = np.flatnonzero((raw == TAB) | (raw == LINE_FEED)) + 1
    last = np.searchsorted(bounds, block.starts[1:])  # the last cell of each line
    if not len(bounds) or bounds[-1] != len(raw):
        bounds = np.append(bounds, len(raw))
    first = np.concatenate([[0], last[:-1] + 1])
    widths = last - first + 1
    cells = strings_over(block.data, np.concatenate([[0], bounds]))  # with the tab or line end after each

    def column(place: int) -> pa.Array:
        return trimmed(cells.take(pa.array(first + place, mask=widths <= place)))

    def explain(row: int) -> DataError:
        return too_few(f"{source.name} line {block.first + row}", int(widths[row]), layout.width)

    known = line_faults(block, widths < layout.width, explain)
    return assemble(by_translation(layout, column, block.numbers), f"{source.name} line", faults, known)

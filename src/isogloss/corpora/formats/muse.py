"""Word lists as MUSE publishes them: a word and its translation per line, separated by a space or a tab."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.amounts import amount
from isogloss.corpora.formats.assemble import assemble, by_translation, line_faults, trimmed
from isogloss.corpora.formats.layout import positional
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.lines import LineBlock
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError


def blocks(source: Source, faults: Faults) -> Blocks:
    """The entries of a word list; every line must have two words."""
    for block in source.line_blocks():
        yield from cut(_pairs(block, source, faults))


def is_word_list(source: Source) -> bool:
    """Whether the first line is two words without a tab: then a .txt file is a word list, not TSV."""
    for block in source.line_blocks():
        row = block.first_content()
        if row is not None:
            line = block.line(row)
            return "\t" not in line and len(line.split()) == 2
    return False


def _pairs(block: LineBlock, source: Source, faults: Faults) -> pa.Table:
    words = pc.utf8_split_whitespace(trimmed(block.text()))
    widths = pc.list_value_length(words).to_numpy()
    starts = words.offsets.to_numpy()[:-1].astype(np.int64)

    def column(place: int) -> pa.Array:
        return words.values.take(pa.array(starts + place, mask=widths != 2))

    def explain(row: int) -> DataError:
        message = f"{source.name} line {block.first + row}: {amount(int(widths[row]), 'word')}, expected 2"
        return DataError(message, hint=f"a word and its translation; for phrases use tabs; {SKIPPING}")

    cells = by_translation(positional(source), column, block.numbers)
    return assemble(cells, f"{source.name} line", faults, line_faults(block, widths != 2, explain))

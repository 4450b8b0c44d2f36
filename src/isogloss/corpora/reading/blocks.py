"""What every reader gives: blocks of pairs as Arrow tables, a megabyte or two each, so that no file has to fit in memory."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("language", pa.string()),  # of the target
        ("split", pa.string()),  # "train", "test", or "" where the file does not say
        ("score", pa.float32()),  # what the corpus itself thinks of the pair (WikiMatrix' margin); null where it says nothing
        ("line", pa.int64()),  # where it stands in its file, counted from 1
    ]
)
BLOCK_BYTES = 4 * 2**20  # of decompressed text that is read at once; where it is cut depends on the content alone
# Rows and bytes of text of a block: what scoring makes of it then stays in the cache of a processor, and takes the same
# memory for long sentences as for short ones.
MAX_ROWS, MAX_TEXT = 2**14, 3 * 2**19

Blocks = Iterator[pa.Table]


def cut(table: pa.Table) -> Blocks:
    """A block as one or more that are not too large; the translations of one line stay together."""
    lines = table["line"].to_numpy()
    text = np.cumsum(sum(pc.binary_length(table[side]).to_numpy().astype(np.int64) for side in ("source", "target")))
    start = 0
    while start < len(lines):
        before = text[start - 1] if start else 0
        stop = min(start + MAX_ROWS, max(start + 1, int(np.searchsorted(text, before + MAX_TEXT, side="right"))))
        if stop < len(lines):
            # Never in the middle of a line: before the one that is cut into, or behind it where it fills the whole block.
            begin, end = (int(np.searchsorted(lines, lines[stop], side)) for side in ("left", "right"))
            stop = begin if begin > start else end
        yield table.slice(start, stop - start)
        start = stop


def blocks_of(tables: Iterable[pa.Table]) -> Blocks:
    """Pairs that were read before, as a reader gives them; the line of each is its row, counted from 1."""
    first = 1
    for table in tables:
        nothing = pa.nulls(table.num_rows, pa.float32())
        line = pa.array(np.arange(first, first + table.num_rows))
        yield from cut(pa.table([*(table.column(name) for name in BLOCK_SCHEMA.names[:4]), nothing, line], schema=BLOCK_SCHEMA))
        first += table.num_rows

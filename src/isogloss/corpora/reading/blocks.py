"""The output of every reader: blocks of pairs as Arrow tables of a megabyte or two, so files need not fit in memory."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("language", pa.string()),  # of the target
        ("split", pa.string()),  # "train", "test", or "" if the file does not say
        ("score", pa.float32()),  # the corpus' own score of the pair (WikiMatrix' margin), or null
        ("line", pa.int64()),  # its line in the file, from 1
    ]
)
BLOCK_BYTES = 4 * 2**20  # of decompressed text per read; where blocks end depends only on the content
# Rows and bytes of text of a block: scoring then stays in the processor's cache, and long sentences take no more memory.
MAX_ROWS, MAX_TEXT = 2**14, 3 * 2**19

Blocks = Iterator[pa.Table]


def cut(table: pa.Table) -> Blocks:
    """Cut a block into blocks that are not too large; the translations of a line stay together."""
    lines = table["line"].to_numpy()
    text = np.cumsum(sum(pc.binary_length(table[side]).to_numpy().astype(np.int64) for side in ("source", "target")))
    start = 0
    while start < len(lines):
        before = text[start - 1] if start else 0
        stop = min(start + MAX_ROWS, max(start + 1, int(np.searchsorted(text, before + MAX_TEXT, side="right"))))
        if stop < len(lines):
            # Never within a line: cut before it, or after it if it fills the whole block.
            begin, end = (int(np.searchsorted(lines, lines[stop], side)) for side in ("left", "right"))
            stop = begin if begin > start else end
        yield table.slice(start, stop - start)
        start = stop


def blocks_of(tables: Iterable[pa.Table]) -> Blocks:
    """Tables of pairs as blocks; the line of each pair is its row, from 1."""
    first = 1
    for table in tables:
        nothing = pa.nulls(table.num_rows, pa.float32())
        line = pa.array(np.arange(first, first + table.num_rows))
        yield from cut(pa.table([*(table.column(name) for name in BLOCK_SCHEMA.names[:4]), nothing, line], schema=BLOCK_SCHEMA))
        first += table.num_rows

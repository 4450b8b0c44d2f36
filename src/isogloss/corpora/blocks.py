"""What every reader gives: blocks of pairs as Arrow tables, a few megabytes each, so that no file has to fit in memory."""

from collections.abc import Iterator

import pyarrow as pa

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
BLOCK_BYTES = 4 * 2**20  # of decompressed text; blocks are cut by content alone, so the same file gives the same blocks

Blocks = Iterator[pa.Table]

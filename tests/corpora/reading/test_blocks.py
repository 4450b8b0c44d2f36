"""Blocks are never too large, whatever the text is, and nothing is lost, moved or parted where they are cut."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading import blocks
from isogloss.corpora.reading.blocks import BLOCK_SCHEMA, blocks_of, cut

# Lines of one to five translations each, of short and long text; "ж" has two bytes.
LINES = st.lists(st.lists(st.sampled_from(["a", "жж", "x" * 20, "x" * 90]), min_size=1, max_size=5), max_size=25)


def table(lines: list[list[str]]) -> pa.Table:
    rows = [("s", target, "de", "", None, number) for number, targets in enumerate(lines, 1) for target in targets]
    return pa.Table.from_pylist([dict(zip(BLOCK_SCHEMA.names, row, strict=True)) for row in rows], schema=BLOCK_SCHEMA)


@given(lines=LINES, rows=st.integers(1, 12), text=st.integers(1, 200))
def test_a_cut_loses_nothing_and_parts_no_line(lines: list[list[str]], rows: int, text: int) -> None:
    whole = table(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_ROWS", rows)
        patch.setattr(blocks, "MAX_TEXT", text)
        pieces = [piece.to_pylist() for piece in cut(whole)]
    assert [row for piece in pieces for row in piece] == whole.to_pylist()
    owners = [{row["line"] for row in piece} for piece in pieces]
    assert sum(map(len, owners)) == len(lines), "a line is in one piece"

    def fits(piece: list[dict[str, str]]) -> bool:
        return len(piece) <= rows and sum(len((row["source"] + row["target"]).encode()) for row in piece) <= text

    assert all(fits(piece) or len(own) == 1 for piece, own in zip(pieces, owners, strict=True)), "only a line alone is larger"
    for piece, behind in pairwise(pieces):
        first = [row for row in behind if row["line"] == behind[0]["line"]]
        assert not fits(piece + first), "no piece is smaller than it must be"


def test_rows_that_were_read_before_are_numbered_through() -> None:
    pairs = pa.table(
        {"source": list("abc"), "target": list("xyz"), "language": ["de"] * 3, "corpus": ["c"] * 3, "split": [""] * 3}
    )
    found = [row for block in blocks_of([pairs, pairs]) for row in block.to_pylist()]
    assert [row["line"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert [(row["source"], row["target"], row["score"]) for row in found[3:]] == [
        ("a", "x", None),
        ("b", "y", None),
        ("c", "z", None),
    ]

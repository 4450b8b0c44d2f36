"""Text to write parallel files of, ways to pack them, and short ways to read them back."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from isogloss.corpora.reading.blocks import BLOCK_SCHEMA
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from isogloss.errors import DataError

# Anything that a side can hold and give back: no surrogates, no control characters or whitespace (they are tried apart).
SIDE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"], exclude_characters="\ufeff\x85"),
    min_size=1,
    max_size=30,
)
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=12)
SOME = [("Good day.", "Guten Tag."), ("It's 5 o'clock, \"sharp\".", "Es ist genau 5 Uhr; ja."), ("שלום ‏עולם", "日本語\u200f!")]


def _zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return bytes(sink.getvalue())


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": _zstd,
}
packings = pytest.mark.parametrize("packing", list(PACK))
few = settings(max_examples=25, deadline=None)  # where a property is tried under every packing


def put(path: Path, data: str | bytes, packing: str = "") -> Path:
    """Write a file, packed as told."""
    path = path.with_name(path.name + packing)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PACK[packing](data.encode() if isinstance(data, str) else data))
    return path


def rows(
    path: Path | str | Sequence[Path | str],
    faults: Faults | None = None,
    language: str | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> list[dict[str, object]]:
    """Every pair of a file, as the columns of its blocks."""
    found: list[dict[str, object]] = []
    for source in find_sources(path, language, format=format, columns=columns):
        for block in stream(source, faults or Faults()):
            assert block.schema.equals(BLOCK_SCHEMA) and block.num_rows > 0
            block.validate(full=True)
            found += block.to_pylist()
    return found


def sides(
    path: Path | str | Sequence[Path | str],
    faults: Faults | None = None,
    language: str | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> list[tuple[object, object]]:
    """Source and target of every pair."""
    return [(row["source"], row["target"]) for row in rows(path, faults, language, format, columns)]


def complaint(path: Path | str | Sequence[Path | str], language: str | None = None, columns: str | None = None) -> DataError:
    """The error that reading a file raises."""
    with pytest.raises(DataError) as caught:
        rows(path, language=language, columns=columns)
    assert caught.value.hint
    return caught.value

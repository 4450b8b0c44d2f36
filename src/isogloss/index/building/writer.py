"""What writes an index. Each kind of index has one, in a file beside this one.

Work that was interrupted continues: what `write` was given is stored when it returns, and the note in the index says how many
documents that are. An index that isogloss did not build is never touched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, Self

from isogloss.index.address import Address
from isogloss.index.build_record import BuildRecord
from isogloss.types import FloatArray

# Kinds of indexes: module and class.
WRITERS = {
    **dict.fromkeys(("npy", "safetensors", "parquet", "faiss"), "file_writer:FileWriter"),
    "postgresql": "postgres_writer:PostgresWriter",
    "qdrant": "qdrant_writer:QdrantWriter",
    "lancedb": "lance_writer:LanceWriter",
    **dict.fromkeys(("opensearch", "elasticsearch"), "search_server_writer:SearchServerWriter"),
}
NUMBERS_A_REQUEST = 2**18  # about 5 MB as JSON


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some documents with their vectors."""

    ids: Sequence[str]
    vectors: FloatArray
    texts: Sequence[str]


def pieces(batch: Batch) -> Iterator[Batch]:
    """A batch in requests of bounded size: servers refuse large ones."""
    rows = max(1, NUMBERS_A_REQUEST // max(batch.vectors.shape[1], 1))
    for start in range(0, len(batch.ids), rows):
        own = slice(start, start + rows)
        yield Batch(batch.ids[own], batch.vectors[own], batch.texts[own])


class IndexWriter(Protocol):
    """An index that is being built. Close it, or use it in a with statement."""

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether something is there, and the note of isogloss in it: None if isogloss did not build it."""
        ...

    def create(self, record: BuildRecord) -> None:
        """Begin an empty index, in place of one that isogloss built."""
        ...

    def resume(self, record: BuildRecord) -> BuildRecord:
        """Add to what is there. Returns the note with the number of documents that are already stored."""
        ...

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store documents and the note; equal ids are replaced."""
        ...

    def finish(self, record: BuildRecord) -> None:
        """Make the index complete, and say so in the note."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


def open_writer(address: Address, inputs: Sequence[str] = ()) -> IndexWriter:
    """The writer of an index. `inputs` are files that must not be overwritten."""
    module, _, name = WRITERS[address.kind].partition(":")
    kind = getattr(import_module(f"{__package__}.{module}"), name)
    writer: IndexWriter = kind(address, inputs)
    return writer

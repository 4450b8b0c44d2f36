"""Indexes that are files of vectors: `.npy`, `.safetensors`, Parquet. Every row is compared, block by block."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from isogloss.index.address import Address
from isogloss.index.build_record import BuildRecord
from isogloss.index.exact_search import nearest_rows
from isogloss.index.row_labels import RowLabels
from isogloss.index.vector_index import IndexFacts, Nearest, ReadIndex, StoredRows, spread_rows
from isogloss.types import FloatArray


class StoredVectors(Protocol):
    """The vectors of a file, read as they are needed."""

    shape: tuple[int, int]

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All rows in blocks, with the number of the first."""
        ...

    def at(self, rows: Sequence[int]) -> FloatArray:
        """Some rows, in ascending order."""
        ...


class FileIndex(ReadIndex):
    """Vectors in a file with ids and perhaps texts. The search is exact."""

    def __init__(self, address: Address, vectors: StoredVectors, labels: RowLabels, built: BuildRecord | None) -> None:
        self.address, self.vectors, self.labels, self._built = address.shown, vectors, labels, built
        self._kind, (self._size, self._dimension) = address.kind, vectors.shape
        self._metric = address.metric(built.metric if built else "cosine")

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind=self._kind,
            size=self._size,
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit_norm(),
            has_texts=self.labels.has_texts,
            exact=True,
            built=self._built,
        )

    def sample(self, count: int) -> StoredRows:
        """Rows that are evenly spread."""
        rows = spread_rows(self._size, count)
        return StoredRows([self.labels.ids[row] for row in rows], self.vectors.at(rows), self.labels.texts_of(rows))

    def stored_blocks(self) -> Iterator[StoredRows]:
        """All rows in blocks."""
        for first, vectors in self.vectors.blocks():
            rows = range(first, first + len(vectors))
            yield StoredRows([self.labels.ids[row] for row in rows], vectors, self.labels.texts_of(rows))

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        return self.labels.by_id(ids)

    def _nearest(self, vectors: FloatArray, k: int) -> Iterator[Nearest]:
        rows, scores = nearest_rows(vectors, self.vectors.blocks(), k, self._metric)
        for own, best in zip(rows, scores, strict=True):
            yield [self.labels.ids[row] for row in own], best


def stacked(blocks: Sequence[FloatArray], dimension: int) -> FloatArray:
    """Rows of several arrays as one array of float32."""
    if not blocks:
        return np.empty((0, dimension), dtype=np.float32)
    return np.concatenate(blocks).astype(np.float32)

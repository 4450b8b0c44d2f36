"""Indexes that are one array on disk: `.npy`, and a tensor in `.safetensors`. Rows are read as they are searched."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.exact_search import BLOCK, nearest_rows
from isogloss.index.row_labels import OPTIONS, labels_of
from isogloss.index.vector_index import (
    SAMPLED,
    Hits,
    IndexFacts,
    StoredRows,
    has_unit_norm,
    refuse_misfit,
    spread,
)
from isogloss.types import FloatArray

Rows = Callable[[slice], FloatArray]


class ArrayIndex:
    """Vectors in one array. The search is exact and compares every row."""

    def __init__(self, address: Address, shape: tuple[int, int], rows: Rows) -> None:
        self.address, self._rows, self._metric = address.shown, rows, address.metric()
        self._kind, (self._size, self._dimension) = address.kind, shape
        self._labels = labels_of(address, self._size)

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind=self._kind,
            size=self._size,
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=has_unit_norm(self._at(spread(self._size, SAMPLED))),
            has_texts=self._labels.has_texts,
            exact=True,
        )

    def search(self, vectors: FloatArray, k: int) -> list[Hits]:
        """The k nearest rows of each vector."""
        refuse_misfit(self.address, self._dimension, vectors, k)
        rows, scores = nearest_rows(vectors, self._blocks(), k, self._metric)
        names = self._labels.ids
        return [
            Hits([names[row] for row in own.tolist()], best.astype(np.float32)) for own, best in zip(rows, scores, strict=True)
        ]

    def sample(self, count: int) -> StoredRows:
        """Rows that are evenly spread."""
        rows = spread(self._size, count)
        return StoredRows([self._labels.ids[row] for row in rows], self._at(rows), self._labels.texts_of(rows))

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        return self._labels.by_id(ids)

    def close(self) -> None:
        """Nothing is held open but the mapping."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _blocks(self) -> Iterator[tuple[int, FloatArray]]:
        for start in range(0, self._size, BLOCK):
            yield start, self._rows(slice(start, start + BLOCK))

    def _at(self, rows: list[int]) -> FloatArray:
        found = [self._rows(slice(row, row + 1)) for row in rows]
        return np.concatenate(found).astype(np.float32) if found else np.empty((0, self._dimension), dtype=np.float32)


def open_array(address: Address) -> ArrayIndex:
    """A .npy file with one vector per row."""
    address.refuse_other_options(("metric", *OPTIONS))
    try:
        array = np.load(address.path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{address.shown}: no such file", hint="isogloss index build makes one of your documents") from error
    except (ValueError, EOFError) as error:
        raise DataError(f"{address.shown}: not a readable .npy file ({str(error)[:80]})", hint="write it again") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive of arrays"
        raise DataError(f"{address.shown}: holds {found}", hint="an index has one vector of floats per row")
    return ArrayIndex(address, array.shape, lambda rows: array[rows])

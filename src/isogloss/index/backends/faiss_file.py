"""Indexes of faiss: flat ones, inverted lists, graphs, codes; also in an IndexIDMap.

    docs.faiss?metric=cosine&nprobe=32       inverted lists: how many are searched
    docs.faiss?ef=128                        a graph: how many candidates are kept

Ids are those of the index if it has its own (add_with_ids), otherwise they stand beside it as for `.npy` files. An index of
dot products whose vectors have length 1 compares by the cosine if the address says metric=cosine.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.errors import DataError, optional_package
from isogloss.index.address import Address
from isogloss.index.backends.array_files import AGAIN, MISSING
from isogloss.index.build_record import read_record
from isogloss.index.exact_search import BLOCK, unit
from isogloss.index.row_labels import OPTIONS, labels_of
from isogloss.index.vector_index import SAMPLED, IndexFacts, Metric, Nearest, ReadIndex, StoredRows, has_unit_norm, spread_rows
from isogloss.types import FloatArray, IntArray

CODES_TOLERANCE = 0.2  # compressed vectors that come out with a length this close to 1 had length 1


def open_faiss(address: Address) -> "FaissIndex":
    """A file that faiss.write_index wrote."""
    address.refuse_other_options(("metric", "nprobe", "ef", *OPTIONS))
    faiss = optional_package(
        "faiss", DataError(f"{address.shown}: this index needs the package faiss", hint="pip install 'isogloss[mining]'")
    )
    if not address.path.is_file():
        raise DataError(f"{address.shown}: no such file", hint=MISSING)
    try:
        index = faiss.read_index(str(address.path))
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2][:80]
        raise DataError(f"{address.shown}: not a readable faiss index ({reason})", hint=AGAIN) from error
    return FaissIndex(address, faiss, index)


class FaissIndex(ReadIndex):
    """An index that faiss searches."""

    def __init__(self, address: Address, faiss: Any, index: Any) -> None:  # noqa: ANN401 - faiss has no types
        self.address, self._faiss, self._index = address.shown, faiss, index
        self._inner, self._row_ids = _without_id_map(faiss, index)
        self._size, self._dimension = int(index.ntotal), int(index.d)
        self._own_ids = not np.array_equal(self._row_ids, np.arange(self._size))
        self.labels = labels_of(address, self._size)
        self._built = read_record(address.path)
        self._lossless = isinstance(self._inner, faiss.IndexFlat | faiss.IndexHNSWFlat | faiss.IndexIVFFlat)
        self._unit = self._unit_norm()
        self._metric = self._metric_of(address)
        self._set_effort(address)

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind="faiss",
            size=self._size,
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit,
            has_texts=self.labels.has_texts,
            exact=isinstance(self._inner, self._faiss.IndexFlat),
            built=self._built,
            note="" if self._lossless else "vectors are stored as codes, so scores are approximate",
        )

    def sample(self, count: int) -> StoredRows:
        """Rows that are evenly spread; compressed vectors are only similar to those that were added."""
        rows = spread_rows(self._size, count)
        ids = [self._name(int(self._row_ids[row])) for row in rows]
        texts = self.labels.by_id(ids)
        return StoredRows(ids, self._vectors(rows), [texts.get(one, "") for one in ids] if self.labels.has_texts else None)

    def stored_blocks(self) -> Iterator[StoredRows]:
        """All rows in blocks."""
        for start in range(0, self._size, BLOCK):
            rows = range(start, min(start + BLOCK, self._size))
            ids = [self._name(int(self._row_ids[row])) for row in rows]
            yield StoredRows(ids, self._vectors(rows), self.labels.texts_of(rows))

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        return self.labels.by_id(ids)

    def _nearest(self, vectors: FloatArray, k: int) -> Iterator[Nearest]:
        asked = np.ascontiguousarray(unit(vectors) if self._metric == "cosine" else vectors, dtype=np.float32)
        found, ids = self._index.search(asked, min(k, max(self._size, 1)))
        for own, values in zip(ids, found, strict=True):
            yield [self._name(one) for one in own[own >= 0]], self._scores(values[own >= 0])

    def _name(self, number: int) -> str:
        return str(int(number)) if self._own_ids else self.labels.ids[int(number)]

    def _vectors(self, rows: Sequence[int]) -> FloatArray:
        found = np.empty((len(rows), self._dimension), dtype=np.float32)
        lists = self._inner if isinstance(self._inner, self._faiss.IndexIVF) else None
        if lists is not None:
            lists.set_direct_map_type(self._faiss.DirectMap.Hashtable)
        try:
            for place, row in enumerate(rows):
                found[place] = self._inner.reconstruct(int(self._row_ids[row]) if lists is self._index else int(row))
        except RuntimeError as error:
            raise DataError(
                f"{self.address}: this kind of faiss index does not give its vectors back",
                hint="it can still be searched",
            ) from error
        return found

    def _unit_norm(self) -> bool | None:
        rows = spread_rows(self._size, SAMPLED)
        try:
            vectors = self._vectors(rows)
        except DataError:
            return None
        if self._lossless or not rows:
            return has_unit_norm(vectors)
        return bool(np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < CODES_TOLERANCE)

    def _metric_of(self, address: Address) -> Metric:
        kinds: dict[int, Metric] = {self._faiss.METRIC_INNER_PRODUCT: "dot", self._faiss.METRIC_L2: "l2"}
        own = kinds.get(self._index.metric_type)
        if own is None:
            raise DataError(f"{self.address}: its metric is not supported", hint="use dot product or Euclidean distance (L2)")
        wanted = address.metric(self._built.metric if self._built else own)
        if wanted == own or (wanted == "cosine" and self._unit is not False):
            return wanted
        why = "its vectors do not have length 1" if wanted == "cosine" else f"it was built for {own}"
        raise DataError(f"{self.address}: cannot be searched by {wanted}: {why}", hint=f"leave metric={wanted} out")

    def _scores(self, values: FloatArray) -> FloatArray:
        """Cosines, dot products or negative distances from what faiss returns: dot products or squared distances."""
        if self._index.metric_type == self._faiss.METRIC_INNER_PRODUCT:
            return values
        squares = np.maximum(values, 0)
        return (1 - squares / 2 if self._metric == "cosine" else 0 - np.sqrt(squares)).astype(np.float32)

    def _set_effort(self, address: Address) -> None:
        nprobe, depth = address.number("nprobe"), address.number("ef")
        if nprobe and hasattr(self._inner, "nprobe"):
            self._inner.nprobe = nprobe
        if depth and hasattr(self._inner, "hnsw"):
            self._inner.hnsw.efSearch = depth


def _without_id_map(faiss: Any, index: Any) -> tuple[Any, IntArray]:  # noqa: ANN401
    """The index inside an id map, and the id of each row."""
    if isinstance(index, faiss.IndexIDMap):
        return faiss.downcast_index(index.index), faiss.vector_to_array(index.id_map)
    if isinstance(index, faiss.IndexIVF):
        lists = index.invlists
        sizes = [int(lists.list_size(number)) for number in range(index.nlist)]
        parts = [faiss.rev_swig_ptr(lists.get_ids(number), size) for number, size in enumerate(sizes) if size]
        return index, np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
    return index, np.arange(index.ntotal)

"""The files of an index, written from blocks of rows: memory grows with a block, except for faiss."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.errors import DataError, optional_package
from isogloss.index.build_record import KEY, BuildRecord
from isogloss.index.exact_search import unit
from isogloss.index.vector_index import StoredRows

TENSOR = "embeddings"


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of an index; `blocks` can be called again."""

    count: int
    record: BuildRecord
    blocks: Callable[[], Iterator[StoredRows]]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the stored vectors."""
        return np.dtype(f"<f{2 if self.record.precision == 'float16' else 4}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.count, self.record.dimension


def write_npy(path: Path, rows: Rows) -> None:
    """A .npy file."""
    header = {"descr": rows.dtype.str, "fortran_order": False, "shape": rows.shape}
    with path.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for block in rows.blocks():
            handle.write(np.ascontiguousarray(block.vectors, dtype=rows.dtype).data)


def write_safetensors(path: Path, rows: Rows) -> None:
    """A .safetensors file with one tensor. safetensors itself wants all of it in memory."""
    size = rows.count * rows.record.dimension * rows.dtype.itemsize
    tensor = {"dtype": f"F{8 * rows.dtype.itemsize}", "shape": list(rows.shape), "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": {KEY: rows.record.as_json()}, TENSOR: tensor}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as handle:
        handle.write(len(header).to_bytes(8, "little") + header)
        for block in rows.blocks():
            handle.write(np.ascontiguousarray(block.vectors, dtype=rows.dtype).data)


def write_parquet(path: Path, rows: Rows) -> None:
    """A Parquet file with the columns id, text and embedding."""
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("embedding", embedding_type(rows.record))],
        metadata={KEY: rows.record.as_json()},
    )
    with pq.ParquetWriter(path, schema) as writer:
        for block in rows.blocks():
            writer.write_table(as_table(block, schema), row_group_size=max(len(block.ids), 1))


def write_faiss(path: Path, rows: Rows) -> None:
    """An exact index of faiss; for the cosine, vectors are scaled to length 1."""
    missing = DataError(f"{path.name}: this index needs the package faiss", hint="pip install 'isogloss[mining]'")
    faiss = optional_package("faiss", missing)
    metric = faiss.METRIC_L2 if rows.record.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    if rows.record.precision == "float16":
        index = faiss.IndexScalarQuantizer(rows.record.dimension, faiss.ScalarQuantizer.QT_fp16, metric)
    else:
        index = faiss.IndexFlat(rows.record.dimension, metric)
    for block in rows.blocks():
        vectors = block.vectors.astype(np.float32)
        scaled = unit(vectors) if rows.record.metric == "cosine" else vectors
        if len(scaled):
            index.add(np.ascontiguousarray(scaled, dtype=np.float32))
    faiss.write_index(index, str(path))


def embedding_type(record: BuildRecord) -> pa.DataType:
    """The Arrow type of a vector."""
    return pa.list_(pa.float16() if record.precision == "float16" else pa.float32(), record.dimension)


def as_table(block: StoredRows, schema: pa.Schema) -> pa.Table:
    """Rows as a table with the columns id, text and embedding (in the order of the schema)."""
    kind = schema.field("embedding").type
    flat = np.ascontiguousarray(block.vectors, dtype=kind.value_type.to_pandas_dtype()).ravel()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, kind.value_type), kind.list_size)
    return pa.table({"id": list(block.ids), "text": list(block.texts or []), "embedding": vectors.cast(kind)}, schema=schema)


ASSEMBLE: dict[str, Callable[[Path, Rows], None]] = {
    "npy": write_npy,
    "safetensors": write_safetensors,
    "parquet": write_parquet,
    "faiss": write_faiss,
}

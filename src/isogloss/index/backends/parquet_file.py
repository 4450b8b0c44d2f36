"""Indexes that are Parquet files: a column of vectors, and columns of ids and texts. Row groups are read one after the other.

    docs.parquet?column=embedding&id=id&text=text       the names are only needed if they cannot be guessed

Vectors are lists, or lists of fixed size, of floats. Without an id column, ids are row numbers from 0.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora.reading.compression import PARQUET_FAULTS
from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.array_files import AGAIN, MISSING
from isogloss.index.backends.file_index import FileIndex, stacked
from isogloss.index.build_record import KEY, record_in
from isogloss.index.columns import ID_NAMES, TEXT_NAMES, chosen_column
from isogloss.index.exact_search import BLOCK
from isogloss.index.row_labels import RowLabels
from isogloss.types import FloatArray

VECTOR_NAMES = ("embedding", "vector", "embeddings", "vectors")


def open_parquet(address: Address) -> FileIndex:
    """A Parquet file with a vector per row."""
    address.refuse_other_options(("metric", "column", "id", "text"))
    try:
        file = pq.ParquetFile(address.path, memory_map=True)
        schema = file.schema_arrow
        column = chosen_column(address, "column", [one.name for one in schema if is_vector(one.type)], VECTOR_NAMES, "vectors")
        if not column:
            found = ", ".join(f"{one.name} ({one.type})" for one in schema)[:200]
            raise DataError(f"{address.shown}: no column of vectors; it has {found}", hint="vectors are lists of floats")
        vectors = ParquetVectors(address.shown, file, column)
        labels = _labels(address, file)
    except FileNotFoundError as error:
        raise DataError(f"{address.shown}: no such file", hint=MISSING) from error
    except PARQUET_FAULTS as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise DataError(f"{address.shown}: not a readable Parquet file ({reason})", hint=AGAIN) from error
    return FileIndex(address, vectors, labels, record_in((schema.metadata or {}).get(KEY.encode())))


class ParquetVectors:
    """A column of vectors. A missing vector is NaN, which is never found."""

    def __init__(self, shown: str, file: pq.ParquetFile, column: str) -> None:
        self._shown, self._file, self._column = shown, file, column
        kind = file.schema_arrow.field(column).type
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else self._first_length()
        self.shape = (file.metadata.num_rows, size)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All rows in blocks; a block ends with its row group."""
        start = 0
        for batch in self._file.iter_batches(BLOCK, columns=[self._column]):
            yield start, vectors_in(batch.column(0), self.shape[1], f"{self._shown} row", start)
            start += batch.num_rows

    def at(self, rows: Sequence[int]) -> FloatArray:
        """Some rows."""
        found = [
            vectors_in(chunk, self.shape[1], f"{self._shown} row", 0)
            for column in rows_of(self._file, self._column, rows)
            for chunk in column.chunks
        ]
        return stacked(found, self.shape[1])

    def _first_length(self) -> int:
        for batch in self._file.iter_batches(BLOCK, columns=[self._column]):
            for value in pc.list_value_length(batch.column(0)).to_pylist():
                if value is not None:
                    return int(value)
        return 0


class ParquetTexts:
    """A column of texts."""

    def __init__(self, file: pq.ParquetFile, column: str) -> None:
        self._file, self._column = file, column

    def of(self, rows: Sequence[int]) -> list[str]:
        """The texts of some rows."""
        order = np.argsort(rows, kind="stable").tolist()
        parts = rows_of(self._file, self._column, [rows[place] for place in order])
        texts = [text or "" for part in parts for text in part.to_pylist()]
        return [texts[place] for place in np.argsort(order).tolist()]


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column holds lists of floats."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and pa.types.is_floating(kind.value_type))


def vectors_in(column: pa.Array, dimension: int, place: str, first: int) -> FloatArray:
    """The vectors in a column of lists as rows; a missing one is NaN."""
    valid = np.asarray(column.is_valid())
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(valid & (lengths != dimension))
    if len(wrong):
        found = int(lengths[wrong[0]])
        raise DataError(
            f"{place} {first + int(wrong[0])}: a vector of {found} dimensions, the first one has {dimension}",
            hint="all vectors of an index have the same dimension",
        )
    rows = np.full((len(column), dimension), np.nan, dtype=np.float32)
    rows[valid] = column.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return rows


def rows_of(file: pq.ParquetFile, column: str, rows: Sequence[int]) -> Iterator[pa.ChunkedArray]:
    """Some rows of a column, in ascending order; only the row groups that have them are read."""
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    wanted = np.asarray(rows, dtype=np.int64)
    for group, (end, count) in enumerate(zip(accumulate(counts), counts, strict=True)):
        own = wanted[(wanted >= end - count) & (wanted < end)] - (end - count)
        if len(own):
            yield file.read_row_group(group, columns=[column]).column(0).take(pa.array(own))


def _labels(address: Address, file: pq.ParquetFile) -> RowLabels:
    schema = file.schema_arrow
    plain = [one.name for one in schema if not pa.types.is_nested(one.type) and not pa.types.is_floating(one.type)]
    named = [name for name in plain if name.lower() in ID_NAMES] if "id" not in (address.options or {}) else plain
    key = chosen_column(address, "id", named, ID_NAMES, "ids")
    strings = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
    text = chosen_column(address, "text", [name for name in strings if name != key], TEXT_NAMES, "texts")
    if key:
        ids = [str(one) for one in file.read(columns=[key]).column(0).to_pylist()]
    else:
        ids = [str(row) for row in range(file.metadata.num_rows)]
    return RowLabels(ids, ParquetTexts(file, text) if text else None)

"""Tables of LanceDB, in a folder.

    lancedb:FOLDER#docs?column=vector&id=id&text=text       the names are only needed if they cannot be guessed

Without an ANN index every row is compared, by `?metric=` or the cosine. `?nprobes=N` sets the effort of an approximate search.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from isogloss.errors import DataError, IsoglossError, optional_package
from isogloss.index.address import Address
from isogloss.index.backends.parquet_file import VECTOR_NAMES, is_vector, vectors_in
from isogloss.index.build_record import read_record
from isogloss.index.columns import ID_NAMES, TEXT_NAMES, chosen_column
from isogloss.index.vector_index import METRICS, IndexFacts, Metric, Nearest, ReadIndex, StoredRows, spread_rows
from isogloss.system_errors import explained
from isogloss.types import FloatArray

P = ParamSpec("P")
T = TypeVar("T")
TABLE_NAME = re.compile(r"[\w.-]+", re.ASCII)
OPTIONS = ("column", "id", "text", "metric", "nprobes")


def open_lance(address: Address) -> "LanceTable":
    """A table."""
    address.refuse_other_options(OPTIONS)
    if not address.path.is_dir():
        raise DataError(f"{address.shown}: there is no folder {address.path}", hint="name the folder of the database")
    database = connect(address)
    try:
        table = database.open_table(address.name)
    except (ValueError, FileNotFoundError) as error:
        others = ", ".join(database.list_tables().tables)
        raise DataError(f"{address.shown}: there is no such table", hint=f"available: {others or 'none'}") from error
    except (RuntimeError, OSError) as error:
        raise _unreadable(address.shown, error) from error
    with _explaining(address.shown):
        return LanceTable(address, table)


def _unreadable(shown: str, error: Exception) -> IsoglossError:
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    return explained(error) or DataError(
        f"{shown}: LanceDB cannot read the table ({reason})", hint="copy its folder again, or build the index again"
    )


@contextmanager
def _explaining(shown: str) -> Iterator[None]:
    """Turn what LanceDB raises for damaged files, and for a failing disk, into a sentence."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        raise _unreadable(shown, error) from error


def _explained(method: Callable[P, T]) -> Callable[P, T]:
    """A method of `LanceTable` that explains what LanceDB raises."""

    @wraps(method)
    def call(*values: P.args, **named: P.kwargs) -> T:
        table = values[0]
        assert isinstance(table, LanceTable)
        with _explaining(table.address):
            return method(*values, **named)

    return call


class LanceTable(ReadIndex):
    """A table that LanceDB searches."""

    def __init__(self, address: Address, table: Any) -> None:  # noqa: ANN401 - an optional package
        self.address, self._table = address.shown, table
        schema = table.schema
        vectors = [one.name for one in schema if is_vector(one.type) and pa.types.is_fixed_size_list(one.type)]
        self._vector = chosen_column(address, "column", vectors, VECTOR_NAMES, "vectors")
        plain = [one.name for one in schema if not pa.types.is_nested(one.type) and not pa.types.is_floating(one.type)]
        likely = plain if "id" in (address.options or {}) else [name for name in plain if name.lower() in ID_NAMES]
        self._id = chosen_column(address, "id", likely, ID_NAMES, "ids")
        strings = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
        self._text = chosen_column(address, "text", [name for name in strings if name != self._id], TEXT_NAMES, "texts")
        if not self._vector or not self._id:
            missing = "vectors (lists of floats of fixed size)" if not self._vector else "ids"
            found = ", ".join(f"{one.name} ({one.type})" for one in schema)[:200]
            raise DataError(f"{self.address}: no column of {missing}; it has {found}", hint="name it: ?column=NAME, ?id=NAME")
        self._dimension = int(schema.field(self._vector).type.list_size)
        self._built = read_record(record_place(address))
        self._metric, self._ann, self._note = self._metric_of(address)
        self._effort = address.number("nprobes")

    @_explained
    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        return IndexFacts(
            kind="lancedb",
            size=int(self._table.count_rows()),
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit_norm(),
            has_texts=bool(self._text),
            exact=not self._ann,
            built=self._built,
            note=self._note,
        )

    @_explained
    def sample(self, count: int) -> StoredRows:
        """Rows that are evenly spread."""
        columns = [self._id, self._vector, *([self._text] if self._text else [])]
        rows = self._table.take_offsets(spread_rows(int(self._table.count_rows()), count)).select(columns).to_arrow()
        chunks = rows.column(self._vector).chunks
        vectors = [vectors_in(chunk, self._dimension, f"{self.address} row", 0) for chunk in chunks]
        texts = [text or "" for text in rows.column(self._text).to_pylist()] if self._text else None
        stacked = np.concatenate(vectors) if vectors else np.empty((0, self._dimension), dtype=np.float32)
        return StoredRows([str(one) for one in rows.column(self._id).to_pylist()], stacked, texts)

    @_explained
    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        if not self._text or not ids:
            return {}
        is_text = pa.types.is_string(self._table.schema.field(self._id).type)
        values = [quoted(one) if is_text else one for one in ids if is_text or one.lstrip("-").isdecimal()]
        query = self._table.search().where(f"`{self._id}` IN ({', '.join(values)})").select([self._id, self._text])
        rows = query.limit(len(ids)).to_arrow()
        found = zip(rows.column(self._id).to_pylist(), rows.column(self._text).to_pylist(), strict=True)
        return {str(name): text for name, text in found if text is not None}

    def _nearest(self, vectors: FloatArray, k: int) -> Iterator[Nearest]:
        for vector in vectors.astype(np.float32):
            query = self._table.search(vector, vector_column_name=self._vector).distance_type(self._metric).limit(k)
            if not self._ann:
                query = query.bypass_vector_index()
            elif self._effort:
                query = query.nprobes(self._effort)
            with _explaining(self.address):
                rows = query.select([self._id, "_distance"]).to_arrow()
            distances = rows.column("_distance").to_numpy().astype(np.float64)
            scores = 0 - np.sqrt(np.maximum(distances, 0)) if self._metric == "l2" else 1 - distances
            yield [str(one) for one in rows.column(self._id).to_pylist()], scores

    def _metric_of(self, address: Address) -> tuple[Metric, bool, str]:
        """The metric, whether an ANN index serves it, and what should be known about that."""
        indexes = [one.name for one in self._table.list_indices() if self._vector in one.columns]
        own = [self._table.index_stats(name).distance_type for name in indexes]
        served = next((metric for metric in METRICS if metric in own), None)
        metric = address.metric(self._built.metric if self._built else served or "cosine")
        if served is None:
            return metric, False, ""
        note = "" if metric == served else f"the ANN index is for {served}, so every row is compared by {metric}"
        return metric, metric == served, note


def connect(address: Address) -> Any:  # noqa: ANN401
    """The database in a folder."""
    missing = DataError(f"{address.shown}: this index needs the package lancedb", hint="pip install 'isogloss[lancedb]'")
    return optional_package("lancedb", missing).connect(str(address.path))


def record_place(address: Address) -> Path:
    """The file beside which `isogloss index build` puts its note: named like the table, so the name has to be one."""
    if not TABLE_NAME.fullmatch(address.name):
        raise DataError(f"{address.shown}: not the name of a table", hint="it has letters without accents, digits, _, - and .")
    return address.path / f"{address.name}.isogloss"


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"

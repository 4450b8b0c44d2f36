"""Tables of PostgreSQL with pgvector: a column of type vector or halfvec, a column of ids, perhaps one of texts.

    postgresql://user@host/db?table=docs&column=embedding&id=id&text=text

Columns need names only if they cannot be guessed. `metric=` counts if no ANN index says which one the table is for.
`ef_search=` (HNSW) and `probes=` (IVFFlat) set the effort of an approximate search, `timeout=` the seconds that a statement may
take. Everything else after the question mark is for libpq: `sslmode=require`, `host=/run/postgresql`. The password may also be
in $PGPASSWORD or ~/.pgpass. The session is read-only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.postgres_catalog import TableFacts, connect, describe, sentence_of
from isogloss.index.build_record import record_in
from isogloss.index.columns import ID_NAMES, TEXT_NAMES, chosen_column
from isogloss.index.vector_index import METRICS, IndexFacts, Metric, Nearest, ReadIndex, StoredRows
from isogloss.types import FloatArray

OPERATORS: dict[Metric, str] = {"cosine": "<=>", "dot": "<#>", "l2": "<->"}
MOST_EF_SEARCH = 1000  # pgvector's limit
LARGE = 1_000_000  # rows that are not all read to count and to sample them
SAMPLED_PAGES = 20  # rows read for each one sampled
VECTOR_NAMES = ("embedding", "vector")


def open_postgres(address: Address) -> "PostgresTable":
    """A table, in a read-only session."""
    return PostgresTable(address)


class PostgresTable(ReadIndex):
    """A table with vectors."""

    def __init__(self, address: Address) -> None:
        from psycopg import sql

        self.address, self._sql = address.shown, sql
        if not address.name:
            raise DataError(f"{self.address}: the address names no table", hint="write ?table=NAME, or ?table=SCHEMA.NAME")
        timeout = address.number("timeout", 60)
        self._effort = {name: address.number(name) for name in ("ef_search", "probes")}
        self._connection = connect(address)
        try:
            self._set("statement_timeout", str(1000 * timeout))
            self._set("default_transaction_read_only", "on")
            self._table = describe(self._connection, address)
            self._columns = _columns(address, self._table)
            self._metric, self._ann, self._note = _metric(address, self._table, self._columns["vector"])
            self._dimension = self._table.dimensions[self._columns["vector"]] or self._measured_dimension()
        except BaseException:
            self._connection.close()
            raise

    def facts(self) -> IndexFacts:
        """Kind, size, dimension, metric and norm."""
        large = self._table.estimate >= LARGE
        ((size,),) = [(self._table.estimate,)] if large else self._rows("SELECT count({vector}) FROM {table}")
        return IndexFacts(
            kind="postgresql",
            size=int(size),
            dimension=self._dimension,
            metric=self._metric,
            unit_norm=self._unit_norm(),
            has_texts=bool(self._columns["text"]),
            exact=not self._ann,
            built=record_in(self._table.comment),
            note=self._note,
        )

    def sample(self, count: int) -> StoredRows:
        """Rows in the order of a hash of their ids; of a large table, those of some pages that are always the same."""
        text = "{text}::text" if self._columns["text"] else "NULL"
        large = self._table.stored and self._table.estimate >= LARGE
        share = min(100.0, 100 * SAMPLED_PAGES * count / max(self._table.estimate, 1))
        part = f" TABLESAMPLE SYSTEM ({share:.9f}) REPEATABLE (0)" if large else ""
        query = f"SELECT {{id}}::text, {{vector}}::real[], {text} FROM {{table}}{part} WHERE {{vector}} IS NOT NULL"
        rows = self._rows(f"{query} ORDER BY hashtext({{id}}::text), 1 LIMIT %s", (count,))
        vectors = np.array([row[1] for row in rows], dtype=np.float32).reshape(len(rows), self._dimension)
        return StoredRows([row[0] for row in rows], vectors, [row[2] or "" for row in rows] if self._columns["text"] else None)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        if not self._columns["text"]:
            return {}
        query = "SELECT {id}::text, {text}::text FROM {table} WHERE {id} = ANY(%s::{id_type}[])"
        return {name: text for name, text in self._rows(query, (list(ids),)) if text is not None}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _nearest(self, vectors: FloatArray, k: int) -> list[Nearest]:
        order = "{vector} " + OPERATORS[self._metric] + " %s::{kind}"
        query = f"SELECT {{id}}::text, {order} FROM {{table}} WHERE {{vector}} IS NOT NULL ORDER BY {order} LIMIT %s"
        with self._connection.transaction():
            self._allow(k)
            found = [self._rows(query, (text, text, k)) for text in map(as_text, vectors)]
        return [([row[0] for row in rows], self._scores([row[1] for row in rows])) for rows in found]

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The result of a query; names in braces stand for the table, its columns and types."""
        import psycopg

        sql, table, columns = self._sql, self._table, self._columns
        named = {name: sql.Identifier(column) for name, column in columns.items() if column}
        named |= {"table": sql.Identifier(table.schema, table.name)}
        types = {"kind": sql.SQL(table.kinds[columns["vector"]]), "id_type": sql.SQL(table.types[columns["id"]])}
        try:
            found: list[Any] = self._connection.execute(sql.SQL(query).format(**named, **types), values).fetchall()
        except psycopg.errors.QueryCanceled as error:
            raise DataError(
                f"{self.address}: the statement took too long and was stopped",
                hint="allow more seconds with timeout=600 in the address, or create an ANN index on the table",
            ) from error
        except psycopg.Error as error:
            raise DataError(f"{self.address}: {sentence_of(error)}", hint="see the database's log") from error
        return found

    def _measured_dimension(self) -> int:
        """The dimension of a column that does not declare it."""
        found = self._rows("SELECT DISTINCT vector_dims({vector}) FROM {table} WHERE {vector} IS NOT NULL ORDER BY 1 LIMIT 2")
        if len(found) > 1:
            sizes = ", ".join(str(row[0]) for row in found)
            raise DataError(
                f"{self.address}: its vectors have several dimensions ({sizes})", hint="search a view with those of one model"
            )
        return int(found[0][0]) if found else 0

    def _set(self, name: str, value: str) -> None:
        self._connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _allow(self, k: int) -> None:
        """Let an approximate search find k rows: by default HNSW finds no more than 40, and IVFFlat looks at one list."""
        if self._ann == "hnsw":
            self._set("hnsw.ef_search", str(min(max(self._effort["ef_search"] or 40, k), MOST_EF_SEARCH)))
        elif self._ann == "ivfflat" and self._effort["probes"]:
            self._set("ivfflat.probes", str(self._effort["probes"]))

    def _scores(self, distances: list[float]) -> FloatArray:
        """Cosines, dot products or negative distances from what pgvector returns."""
        values = np.array(distances, dtype=np.float64)
        return ((1 - values) if self._metric == "cosine" else (0 - values)).astype(np.float32)


def as_text(vector: FloatArray) -> str:
    """A vector as pgvector reads it."""
    return "[" + ",".join(map(repr, vector.astype(np.float32).tolist())) + "]"


def _columns(address: Address, table: TableFacts) -> dict[str, str]:
    """The columns of vectors, ids and texts."""
    if not table.kinds:
        found = ", ".join(f"{name} ({kind})" for name, kind in table.types.items())[:200]
        raise DataError(f"{address.shown}: no column of type vector or halfvec; it has {found}", hint="name another table")
    vector = chosen_column(address, "column", list(table.kinds), VECTOR_NAMES, "vectors")
    plain = [name for name in table.types if name not in table.kinds]
    given = "id" in (address.options or {})
    likely = plain if given else [table.primary_key] if table.primary_key else [one for one in plain if one in ID_NAMES]
    key = chosen_column(address, "id", likely, () if table.primary_key and not given else ID_NAMES, "ids")
    if not key:
        message = f"{address.shown}: which column holds the ids? candidates: {', '.join(plain)}"
        raise DataError(message, hint="name it: ?id=NAME")
    strings = [name for name in plain if table.types[name] in ("text", "character varying") and name != key]
    text = chosen_column(address, "text", strings, TEXT_NAMES, "texts")
    return {"vector": vector, "id": key, "text": text}


def _metric(address: Address, table: TableFacts, column: str) -> tuple[Metric, str, str]:
    """The metric, the kind of ANN index that serves it, and what should be known about that."""
    own = {one.metric: one.kind for one in table.ann if one.column == column and one.metric in METRICS}
    given = "metric" in (address.options or {})
    metric = address.metric(next(iter(own), "cosine"))
    if not own:
        meant = "" if given else f"; its vectors are compared by {metric}, write ?metric= if another one is meant"
        return metric, "", f"the column {column} has no ANN index, so every row is compared{meant}"
    if metric not in own:
        return metric, "", f"the ANN index is for {' and '.join(own)}, so every row is compared by {metric}"
    others = [one for one in own if one != metric]
    chosen = f"there are ANN indexes for {' and '.join(own)}; {metric} is used" if others and not given else ""
    return metric, own[metric], chosen

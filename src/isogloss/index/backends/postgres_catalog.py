"""PostgreSQL: the connection, and what its catalog says about a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from isogloss.errors import DataError, optional_package
from isogloss.index.address import Address
from isogloss.shown import masked

OPTIONS = ("table", "column", "id", "text", "metric", "timeout", "ef_search", "probes")
CONNECT_SECONDS = "10"
OPERATOR_CLASSES = {"_cosine_ops": "cosine", "_ip_ops": "dot", "_l2_ops": "l2"}

TABLE = """
SELECT c.oid, n.nspname, c.relname, obj_description(c.oid, 'pg_class'), c.relkind IN ('r', 'm'), greatest(c.reltuples, 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = %s AND (n.nspname = %s OR (%s = '' AND pg_table_is_visible(c.oid)))
"""
TABLES = """
SELECT DISTINCT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
WHERE t.typname IN ('vector', 'halfvec') AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT a.attisdropped ORDER BY 1 LIMIT 10
"""
COLUMNS = """
SELECT a.attname, t.typname, format_type(a.atttypid, NULL), a.atttypmod
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
PRIMARY_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %s AND i.indisprimary AND i.indnkeyatts = 1
"""
ANN = """
SELECT a.attname, m.amname, o.opcname
FROM pg_index i
JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
JOIN pg_opclass o ON o.oid = i.indclass[0]
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %s AND i.indisvalid AND i.indpred IS NULL AND m.amname IN ('hnsw', 'ivfflat') ORDER BY x.relname
"""


@dataclass(frozen=True, slots=True)
class AnnIndex:
    """An index for approximate search."""

    column: str
    kind: str  # hnsw or ivfflat
    metric: str  # empty if it is one that we do not know


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the catalog says about a table or view. `types` has every column, `kinds` and `dimensions` those of vectors."""

    oid: int
    schema: str
    name: str
    comment: str
    stored: bool  # a table or a materialized view
    estimate: int  # of its rows
    types: dict[str, str]
    kinds: dict[str, str]
    dimensions: dict[str, int]  # 0 if it is not declared
    primary_key: str
    ann: list[AnnIndex]


def connect(address: Address, options: Sequence[str] = OPTIONS) -> Any:  # noqa: ANN401 - psycopg is an optional package
    """A connection that commits each statement."""
    psycopg = optional_package(
        "psycopg", DataError(f"{address.shown}: this index needs the package psycopg", hint="pip install 'isogloss[pgvector]'")
    )
    known = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()}
    ours = {name: value for name, value in (address.options or {}).items() if name not in known}
    replace(address, options=ours).refuse_other_options(options)
    libpq = {name: value for name, value in (address.options or {}).items() if name in known}
    try:
        return psycopg.connect(address.place, autocommit=True, **({"connect_timeout": CONNECT_SECONDS} | libpq))
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise DataError(f"{address.shown}: no connection ({sentence_of(error)})", hint=_hint(str(error))) from None


def describe(connection: Any, address: Address) -> TableFacts:  # noqa: ANN401
    """What the catalog says about the table that an address names."""
    found = find_table(connection, address)
    if found is None:
        others = ", ".join(row[0] for row in connection.execute(TABLES).fetchall())
        hint = f"tables with vectors: {others}" if others else "no table that this user can see has vectors"
        raise DataError(f"{address.shown}: there is no table {address.name!r}", hint=hint)
    oid, schema, name, comment, stored, estimate = found
    columns = connection.execute(COLUMNS, (oid,)).fetchall()
    vectors = {column: (kind, modifier) for column, kind, _, modifier in columns if kind in ("vector", "halfvec")}
    key = connection.execute(PRIMARY_KEY, (oid,)).fetchone()
    return TableFacts(
        oid,
        schema,
        name,
        comment or "",
        bool(stored),
        int(estimate),
        {column: kind for column, _, kind, _ in columns},
        {column: kind for column, (kind, _) in vectors.items()},
        {column: max(modifier, 0) for column, (_, modifier) in vectors.items()},
        key[0] if key else "",
        [AnnIndex(column, kind, _metric_of(ops)) for column, kind, ops in connection.execute(ANN, (oid,)).fetchall()],
    )


def find_table(connection: Any, address: Address) -> tuple[int, str, str, str | None, bool, float] | None:  # noqa: ANN401
    """Number, schema, name and comment of a table, whether it is stored, about how many rows it has; None if there is none."""
    schema, name = split_name(address.name)
    found: tuple[int, str, str, str | None, bool, float] | None = connection.execute(TABLE, (name, schema, schema)).fetchone()
    return found


def split_name(text: str) -> tuple[str, str]:
    """Schema, empty if none is named, and table: `docs`, `public.docs`, `"my.docs"`."""
    if text.startswith('"') and text.endswith('"') and '"' not in text[1:-1]:
        return "", text[1:-1]
    schema, _, name = text.rpartition(".")
    return schema, name


def sentence_of(error: Exception) -> str:
    """The first line of a database's message, without passwords."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return masked(lines[0].removeprefix("connection failed: "))[:300]


def _metric_of(operator_class: str) -> str:
    return next((metric for ending, metric in OPERATOR_CLASSES.items() if operator_class.endswith(ending)), "")


def _hint(message: str) -> str:
    if "password" in message or "authentication" in message:
        return "check the user and the password in the address, or set PGPASSWORD"
    if "does not exist" in message:
        return "the name of the database comes after the host: HOST/DATABASE?table=NAME"
    return "check host and port, and that the server accepts connections from here"

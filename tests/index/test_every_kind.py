"""Every kind of index gives the hits and scores of brute force, and is built, continued, extended and replaced alike.

With the real packages: faiss, pyarrow, safetensors, Qdrant's embedded mode, LanceDB. OpenSearch and Elasticsearch are a
stand-in. PostgreSQL does the same in test_postgres_table.py, so that its server starts once.
"""

from pathlib import Path

import pytest

from index.agreement import agrees, build, continues_after_a_kill, lifecycle, refuses, write_documents
from index.search_server_stand_in import StandIn
from isogloss.index.vector_index import METRICS, Metric

FILES = ("docs.npy", "docs.safetensors", "docs.parquet", "docs.faiss")
KINDS = (
    *FILES,
    "qdrant:{folder}#docs",
    "lancedb:{folder}#docs",
    "opensearch:http://{server}#docs",
    "elasticsearch:http://{server}#docs",
)


@pytest.fixture
def place(tmp_path: Path, search_server: StandIn) -> str:
    """Where an index of each kind goes: `place.format(kind)`."""
    search_server.indexes.clear()
    return f"{tmp_path}|{search_server.address}"


def address_of(kind: str, place: str) -> str:
    folder, _, server = place.partition("|")
    return kind.format(folder=f"{folder}/db", server=server) if ":" in kind else f"{folder}/{kind}"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_hits_and_scores_are_those_of_brute_force(kind: str, metric: Metric, place: str, tmp_path: Path) -> None:
    built = build(write_documents(tmp_path / "all.jsonl", range(70)), address_of(kind, place), metric)
    assert (built.documents, built.metric, built.dimension) == (70, metric, 5)
    agrees(address_of(kind, place), range(70), metric)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_is_built_continued_extended_and_replaced(kind: str, place: str, tmp_path: Path) -> None:
    lifecycle(tmp_path, address_of(kind, place))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("lancedb", "qdrant"))])
def test_a_killed_build_continues(kind: str, place: str, tmp_path: Path) -> None:
    continues_after_a_kill(tmp_path, address_of(kind, place))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision(kind: str, place: str, tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "all.jsonl", range(70))
    if "http" in kind:
        refuses(lambda: build(documents, address_of(kind, place), precision="float16"), "stored as float32")
    else:
        build(documents, address_of(kind, place), "dot", precision="float16")
        agrees(address_of(kind, place), range(70), "dot", tolerance=5e-3)

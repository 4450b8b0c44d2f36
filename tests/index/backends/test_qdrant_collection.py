"""Collections of Qdrant's embedded mode that others made: metrics, names, payloads, and what is refused."""

import gc
import sqlite3
import warnings
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from index.agreement import QUERIES, ROWS, WIDTH, build, lifecycle, refuses, write_documents
from index.brute_force import best
from index.qdrant_stand_in import qdrant_stand_in
from isogloss.index.building import writer
from isogloss.index.open import open_index

PAYLOAD = {"page_content": "text", "source": "web", "key": "k"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections with plain, named and unsupported vectors."""
    place = tmp_path_factory.mktemp("qdrant")
    client = QdrantClient(path=str(place))
    plain, named = models.VectorParams, models.Distance
    client.create_collection("euclid", plain(size=WIDTH, distance=named.EUCLID))
    client.create_collection("manhattan", plain(size=WIDTH, distance=named.MANHATTAN))
    client.create_collection("empty", plain(size=WIDTH, distance=named.DOT))
    client.create_collection("two", {"a": plain(size=WIDTH, distance=named.DOT), "b": plain(size=2, distance=named.COSINE)})
    payloads = [{**PAYLOAD, "key": f"k{row}", "page_content": f"text {row}"} for row in range(20)]
    client.upsert("euclid", models.Batch(ids=list(range(20)), vectors=ROWS[:20].tolist(), payloads=payloads))
    vectors = {"a": ROWS[:20].tolist(), "b": ROWS[:20, :2].tolist()}
    client.upsert("two", models.Batch(ids=list(range(20)), vectors=vectors, payloads=payloads))
    client.close()
    return place


def test_a_collection_of_somebody_else(folder: Path, tmp_path: Path) -> None:
    with open_index(f"qdrant:{folder}#euclid") as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.unit_norm) == (20, WIDTH, "l2", False)
        assert facts.exact and facts.built is None
        for query, hits in zip(QUERIES, index.search(QUERIES, 4), strict=True):
            assert hits.ids == [str(row) for row, _ in best(query, ROWS[:20], 4, "l2")]
            assert hits.scores == pytest.approx([score for _, score in best(query, ROWS[:20], 4, "l2")], abs=1e-5)
        assert index.texts(["3", "99"]) == {"3": "text 3"}, "page_content is a usual name of a text"
    with open_index(f"qdrant:{folder}#euclid?id=key&text=source") as index:
        assert index.search(ROWS[5:6], 1)[0].ids == ["k5"] and index.texts(["k5", "5"]) == {"k5": "web"}
    documents = write_documents(tmp_path / "all.jsonl", range(5))
    for existing in ("refuse", "replace", "append"):
        refuses(
            lambda existing=existing: build(documents, f"qdrant:{folder}#euclid", "l2", existing), "was not built by isogloss"
        )


def test_named_vectors(folder: Path) -> None:
    refuses(lambda: open_index(f"qdrant:{folder}#two"), "which column holds the vectors? candidates: 'a', 'b'")
    with open_index(f"qdrant:{folder}#two?vector=b&ef=64") as index:
        assert (index.facts().dimension, index.facts().metric) == (2, "cosine")
        expected = [str(row) for row, _ in best(QUERIES[0, :2], ROWS[:20, :2], 3, "cosine")]
        assert index.search(QUERIES[:1, :2], 3)[0].ids == expected and index.sample(2).vectors.shape == (2, 2)


def test_what_cannot_be_opened_is_explained(folder: Path, tmp_path: Path) -> None:
    for address, said in (
        (f"{folder}#none", "there is no such collection"),
        (f"{folder}#manhattan", "its distance Manhattan is not supported"),
        (f"{folder}#euclid?vector=a", "its vector has no name"),
        (f"{folder}#euclid?vectors=a", "the option 'vectors'"),
        (f"{tmp_path}#docs", "is not a folder of Qdrant's embedded mode"),
        ("http://127.0.0.1:9#docs", "no answer"),
    ):
        refuses(lambda address=address: open_index(f"qdrant:{address}"), said)
    assert not list(tmp_path.iterdir())
    with open_index(f"qdrant:{folder}#empty") as index:
        assert index.facts().size == 0 and index.search(QUERIES, 2)[0].ids == [] and index.sample(2).ids == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # qdrant-client leaves the lock file open when it does not get it
            refuses(lambda: open_index(f"qdrant:{folder}#euclid"), "another program has this folder open")
            gc.collect()


def test_a_server_by_its_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a real server: the requests of qdrant-client, answered by its embedded mode."""
    with qdrant_stand_in(key="s3cret") as server:
        address = f"qdrant:{server.url}#docs"
        refuses(lambda: open_index(address), "the server answers 401")
        monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
        refuses(lambda: open_index(address), "there is no such collection")
        monkeypatch.setattr(writer, "NUMBERS_A_REQUEST", 2 * WIDTH)
        lifecycle(tmp_path, address)
        with open_index(f"{address}?ef=32") as index:
            assert not index.facts().exact and index.search(QUERIES, 2)[0].ids
        server.keeps_metadata = False
        documents = write_documents(tmp_path / "all.jsonl", range(5))
        refuses(lambda: build(documents, f"qdrant:{server.url}#other"), "this server is too old")
        assert not server.client.collection_exists("other")
        monkeypatch.setenv("QDRANT_API_KEY", "line\nbreak")
        refuses(lambda: open_index(address), "the key in QDRANT_API_KEY has a line break")


def test_a_damaged_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    address, meta = f"qdrant:{tmp_path}/vectors#docs", tmp_path / "vectors" / "meta.json"
    build(write_documents(tmp_path / "all.jsonl", range(10)), address)
    before = meta.read_text()
    for content in (before[:50], before.replace('"size"', '"sizf"'), "[]"):
        meta.write_text(content)
        refuses(lambda: open_index(address), "Qdrant cannot read this folder")
    meta.write_text(before)
    (stored,) = (tmp_path / "vectors").rglob("storage.sqlite")
    stored.write_bytes(b"no database" * 1000)
    refuses(lambda: open_index(address), "Qdrant cannot read this folder")
    gc.collect()


def test_a_full_disk_under_a_folder_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_values: object, **_named: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(QdrantClient, "upsert", full)
    documents = write_documents(tmp_path / "all.jsonl", range(10))
    refuses(lambda: build(documents, f"qdrant:{tmp_path}/vectors#docs"), "database or disk is full")

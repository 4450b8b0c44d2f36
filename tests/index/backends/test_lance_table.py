"""Tables of LanceDB that others made: metrics, ANN indexes, columns, and what is refused."""

from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from index.agreement import QUERIES, ROWS, WIDTH, build, refuses, write_documents
from index.brute_force import best
from isogloss.index.open import open_index
from isogloss.types import FloatArray


def made(folder: Path, name: str = "docs", rows: FloatArray = ROWS, **columns: Any) -> Any:  # noqa: ANN401
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), WIDTH)
    content = {"id": list(range(len(rows))), "it's": [f"text {row}" for row in range(len(rows))], "vector": vectors, **columns}
    return lancedb.connect(str(folder)).create_table(name, data=pa.table(content))


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_table_of_somebody_else(metric: str, tmp_path: Path) -> None:
    made(tmp_path)
    with open_index(f"lancedb:{tmp_path}#docs?metric={metric}") as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.unit_norm, facts.exact) == (70, WIDTH, metric, False, True)
        for query, hits in zip(QUERIES, index.search(QUERIES, 4), strict=True):
            assert hits.ids == [str(row) for row, _ in best(query, ROWS, 4, metric)]
            assert hits.scores == pytest.approx([score for _, score in best(query, ROWS, 4, metric)], abs=1e-5)
        assert index.texts(["3", "99", "x' OR 1=1"]) == {"3": "text 3"}
    documents = write_documents(tmp_path / "all.jsonl", range(5))
    for existing in ("refuse", "replace", "append"):
        refuses(
            lambda existing=existing: build(documents, f"lancedb:{tmp_path}#docs", "l2", existing), "was not built by isogloss"
        )


def test_the_metric_is_that_of_the_ann_index(tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(size=(300, WIDTH)).astype(np.float32)
    made(tmp_path, rows=rows).create_index("vector", config=IvfFlat(distance_type="dot", num_partitions=4))
    with open_index(f"lancedb:{tmp_path}#docs?nprobes=4") as index:
        assert (index.facts().metric, index.facts().exact, index.facts().note) == ("dot", False, "")
        expected = best(QUERIES[0], rows, 5, "dot")
        (hits,) = index.search(QUERIES[:1], 5)
        assert hits.ids == [str(row) for row, _ in expected]
        assert hits.scores == pytest.approx([score for _, score in expected], abs=1e-5)
    with open_index(f"lancedb:{tmp_path}#docs?metric=l2") as index:
        assert index.facts().exact and "the ANN index is for dot, so every row is compared by l2" in index.facts().note
        assert index.search(QUERIES[:1], 5)[0].ids == [str(row) for row, _ in best(QUERIES[0], rows, 5, "l2")]


def test_what_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    made(tmp_path)
    made(tmp_path, "empty", ROWS[:0])
    lancedb.connect(str(tmp_path)).create_table("plain", data=pa.table({"id": [1]}))
    made(tmp_path, "other", **{"other": made(tmp_path, "again").to_arrow().column("vector"), "id": ["a'b"] * 70})
    for address, said in (
        (f"{tmp_path}/none#docs", "there is no folder"),
        (f"{tmp_path}#none", "there is no such table"),
        (f"{tmp_path}#plain", "no column of vectors (lists of floats of fixed size); it has id (int64)"),
        (f"{tmp_path}#docs?id=none", "there is no column 'none' of ids"),
        (f"{tmp_path}#docs?nprobes=-1", "nprobes=-1 is not a number"),
    ):
        refuses(lambda address=address: open_index(f"lancedb:{address}"), said)
    with open_index(f"lancedb:{tmp_path}#other?column=other") as index:
        assert index.texts(["a'b"])["a'b"].startswith("text")
    with open_index(f"lancedb:{tmp_path}#empty") as index:
        assert index.facts().size == 0 and index.search(QUERIES, 2)[0].ids == [] and index.sample(2).ids == []


def test_a_damaged_table_is_refused_with_a_sentence(tmp_path: Path) -> None:
    address = f"lancedb:{tmp_path}#docs"
    build(write_documents(tmp_path / "all.jsonl", range(30)), address)
    note = tmp_path / "docs.isogloss.json"
    before = note.read_bytes()
    note.write_bytes(before.replace(b'"cosine"', b'"cosinf"'))
    refuses(lambda: open_index(address), "the note of an index is damaged")
    note.write_bytes(before)
    for path in (tmp_path / "docs.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_index(address) as index:
        for act in (index.facts, lambda: index.search(QUERIES, 2), lambda: index.sample(3), lambda: index.texts(["a1"])):
            refuses(act, "LanceDB cannot read the table")
    for path in (tmp_path / "docs.lance" / "_versions").iterdir():
        path.write_bytes(b"")
    refuses(lambda: open_index(address), "LanceDB cannot read the table")


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "all.jsonl", range(3))
    for name in ("../docs", "a/b", "größe"):
        refuses(lambda name=name: build(documents, f"lancedb:{tmp_path}/database#{name}"), "not the name of a table")
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]

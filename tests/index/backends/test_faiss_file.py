"""faiss files of every sort: metrics, ids, effort, codes, and what is refused."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from index.agreement import QUERIES, ROWS, WIDTH, refuses
from index.brute_force import best
from isogloss.index.open import open_index
from isogloss.types import FloatArray

UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)


def saved(folder: Path, index: Any, rows: FloatArray = ROWS, ids: list[int] | None = None) -> str:  # noqa: ANN401
    if not index.is_trained:
        index.train(rows)
    if ids is None:
        index.add(rows)
    else:
        index.add_with_ids(rows, np.array(ids))
    faiss.write_index(index, str(folder / "docs.faiss"))
    return str(folder / "docs.faiss")


@pytest.mark.parametrize(
    ("kind", "exact"), [("Flat", True), ("IVF4,Flat", False), ("HNSW8", False), ("IDMap,Flat", True), ("IDMap2,HNSW8", False)]
)
def test_kinds_of_indexes(kind: str, exact: bool, tmp_path: Path) -> None:
    index = faiss.index_factory(WIDTH, kind, faiss.METRIC_L2)
    own = "ID" in kind or "IVF" in kind
    address = saved(tmp_path, index, ids=[1000 + row for row in range(len(ROWS))] if own else None)
    with open_index(f"{address}?nprobe=4&ef=100") as opened:
        facts = opened.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.exact) == (70, WIDTH, "l2", exact)
        assert facts.unit_norm is False and facts.note == ""
        for query, hits in zip(QUERIES, opened.search(QUERIES, 5), strict=True):
            expected = best(query, ROWS, 5, "l2")
            assert hits.ids == [str(row + 1000 * own) for row, _ in expected]
            assert hits.scores == pytest.approx([score for _, score in expected], abs=1e-5)
        sample = opened.sample(3)
        assert np.array_equal(sample.vectors, ROWS[[0, 34, 69]]) and sample.ids[0] == str(1000 * own)
        assert sample.texts is None and opened.texts(sample.ids) == {}


def test_effort_changes_what_is_found(tmp_path: Path) -> None:
    address = saved(tmp_path, faiss.index_factory(WIDTH, "IVF16,Flat"))
    with open_index(f"{address}?nprobe=1") as few, open_index(f"{address}?nprobe=16") as many:
        assert len(few.search(QUERIES, 70)[0].ids) < len(many.search(QUERIES, 70)[0].ids) == 70


def test_dot_products_of_unit_vectors_can_be_cosines(tmp_path: Path) -> None:
    for kind, metric in (("IP", faiss.METRIC_INNER_PRODUCT), ("L2", faiss.METRIC_L2)):
        address = saved(tmp_path, faiss.index_factory(WIDTH, "Flat", metric), UNIT)
        with open_index(f"{address}?metric=cosine") as opened:
            assert opened.facts().metric == "cosine" and opened.facts().unit_norm is True
            expected = best(QUERIES[0], ROWS, 4, "cosine")
            (hits,) = opened.search(QUERIES[:1], 4)
            assert hits.ids == [str(row) for row, _ in expected], kind
            assert hits.scores == pytest.approx([score for _, score in expected], abs=1e-5)
    address = saved(tmp_path, faiss.IndexFlatIP(WIDTH))
    refuses(lambda: open_index(f"{address}?metric=cosine"), "cannot be searched by cosine: its vectors do not have length 1")
    refuses(lambda: open_index(f"{address}?metric=l2"), "cannot be searched by l2: it was built for dot")


def test_codes_are_said_to_be_approximate(tmp_path: Path) -> None:
    for kind, unit in (("PQ5x4", False), ("SQ8", True)):
        address = saved(tmp_path, faiss.index_factory(WIDTH, kind), UNIT if unit else ROWS)
        with open_index(address) as opened:
            assert opened.facts().unit_norm is unit and "scores are approximate" in opened.facts().note


def test_ids_and_texts_stand_beside_it(tmp_path: Path) -> None:
    address = saved(tmp_path, faiss.index_factory(WIDTH, "IDMap,Flat"), ids=[5 * row for row in range(70)])
    Path(address).with_suffix(".tsv").write_text("".join(f"{5 * row}\ttext {row}\n" for row in range(70)))
    with open_index(address) as opened:
        assert opened.texts(["10", "11"]) == {"10": "text 2"} and opened.sample(2).texts == ["text 0", "text 69"]
        assert next(iter(opened.stored_blocks())).ids[:3] == ["0", "5", "10"]  # type: ignore[attr-defined]


def test_what_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    refuses(lambda: open_index(str(tmp_path / "none.faiss")), "no such file")
    (tmp_path / "bad.faiss").write_bytes(b"not an index at all")
    refuses(lambda: open_index(str(tmp_path / "bad.faiss")), "not a readable faiss index")
    address = saved(tmp_path, faiss.index_factory(WIDTH, "Flat", faiss.METRIC_L1))
    refuses(lambda: open_index(address), "its metric is not supported")
    refuses(lambda: open_index(f"{address}?nprobe=many"), "its metric")
    address = saved(tmp_path, faiss.IndexFlatL2(WIDTH))
    refuses(lambda: open_index(f"{address}?nprobe=many"), "nprobe=many is not a number")
    with open_index(saved(tmp_path, faiss.IndexFlatL2(WIDTH), ROWS[:0])) as opened:
        assert opened.facts().size == 0 and opened.search(QUERIES, 3)[0].ids == [] and opened.sample(5).ids == []

"""Parquet files as indexes: every form of a column of vectors, guessed columns, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from index.agreement import QUERIES, ROWS, WIDTH, refuses
from index.brute_force import best
from isogloss.index.open import open_index

FORMS = [
    *(pa.list_(kind, WIDTH) for kind in (pa.float16(), pa.float32(), pa.float64())),
    pa.list_(pa.float32()),
    pa.large_list(pa.float64()),
]


def saved(folder: Path, columns: dict[str, Any], rows_a_group: int = 16) -> str:
    pq.write_table(pa.table(columns), folder / "docs.parquet", row_group_size=rows_a_group)
    return str(folder / "docs.parquet")


def lists(kind: pa.DataType = FORMS[1], rows: Any = ROWS) -> pa.Array:  # noqa: ANN401
    flat = np.asarray(rows).astype(kind.value_type.to_pandas_dtype())
    return pa.array(list(flat), kind)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_of_vectors(form: pa.DataType, tmp_path: Path) -> None:
    address = saved(tmp_path, {"n": pa.array(range(70)), "emb": lists(form), "content": [f"text {row}" for row in range(70)]})
    tolerance = 5e-3 if form == FORMS[0] else 1e-5
    with open_index(address + "?metric=l2") as index:
        facts = index.facts()
        assert (facts.size, facts.dimension, facts.metric, facts.unit_norm, facts.exact) == (70, WIDTH, "l2", False, True)
        for query, hits in zip(QUERIES, index.search(QUERIES, 7), strict=True):
            assert hits.ids == [str(row) for row, _ in best(query, ROWS, 7, "l2")]
            assert hits.scores == pytest.approx([score for _, score in best(query, ROWS, 7, "l2")], abs=tolerance)
        sample = index.sample(4)
        assert sample.ids == ["0", "23", "46", "69"] and sample.texts == [f"text {name}" for name in sample.ids]
        assert sample.vectors == pytest.approx(ROWS[[0, 23, 46, 69]], abs=tolerance)
        assert index.texts(["69", "3", "70", "16"]) == {"69": "text 69", "3": "text 3", "16": "text 16"}


def test_missing_and_broken_vectors_are_never_found(tmp_path: Path) -> None:
    vectors = [[1.0, 0.0], None, [float("nan"), 1.0], [0.0, 1.0]]
    with open_index(saved(tmp_path, {"id": [7, 8, 9, 10], "v": pa.array(vectors, pa.list_(pa.float32()))}, 2)) as index:
        assert index.facts().size == 4
        assert index.search(np.array([[1, 1]], dtype=np.float32), 4)[0].ids == ["7", "10"]


def test_columns_are_guessed_or_asked_for(tmp_path: Path) -> None:
    vectors, names = lists(), [f"n{row}" for row in range(70)]
    columns = {"doc_id": names, "uuid": names, "title": names, "body": names, "v": vectors, "w": vectors}
    address = saved(tmp_path, columns)
    refuses(lambda: open_index(address), "which column holds the vectors? candidates: 'v', 'w'")
    refuses(lambda: open_index(f"{address}?column=v"), "which column holds the ids? candidates: 'doc_id', 'uuid'")
    refuses(lambda: open_index(f"{address}?column=v&id=doc_id&text=v"), "there is no column 'v' of texts")
    with open_index(f"{address}?column=w&id=uuid") as index:
        assert index.texts(["n4"]) == {"n4": "n4"}, "of title, body and doc_id, body is a usual name of a text"
    with open_index(f"{address}?column=w&id=uuid&text=") as index:
        assert not index.facts().has_texts
    address = saved(tmp_path, {"id": names, "a": names, "b": names, "embedding": vectors, "w": vectors})
    refuses(lambda: open_index(address), "which column holds the texts? candidates: 'a', 'b'")


def test_what_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    refuses(lambda: open_index(str(tmp_path / "none.parquet")), "no such file")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    refuses(lambda: open_index(str(tmp_path / "bad.parquet")), "not a readable Parquet file")
    refuses(
        lambda: open_index(saved(tmp_path, {"id": [1], "text": ["a"]})),
        "no column of vectors; it has id (int64), text (string)",
    )
    ragged = pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))
    with open_index(saved(tmp_path, {"id": [1, 2], "v": ragged})) as index:
        refuses(
            lambda: index.search(np.ones((1, 2), dtype=np.float32), 1), "row 1: a vector of 1 dimensions, the first one has 2"
        )
    with open_index(saved(tmp_path, {"id": pa.array([], pa.int64()), "v": lists(rows=ROWS[:0])})) as index:
        assert index.facts().size == 0 and index.sample(3).ids == [] and index.search(QUERIES, 2)[0].ids == []

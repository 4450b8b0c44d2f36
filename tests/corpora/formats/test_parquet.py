"""Parquet: names decide, types do not matter as long as they can be text, and damage is explained."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from isogloss.corpora.reading.malformed import Faults
from parallel import PAIRS, SOME, complaint, packings, put, rows, sides


def packed(columns: dict[str, Any] | pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), sink, row_group_size=5)
    return sink.getvalue()


@given(pairs=PAIRS)
def test_pairs_come_back_as_written(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    path = put(tmp_path_factory.mktemp("x") / "x.parquet", packed({"en": [s for s, _ in pairs], "de": [t for _, t in pairs]}))
    found = rows(path)
    assert [(row["source"], row["target"], row["line"]) for row in found] == [(*pair, n) for n, pair in enumerate(pairs, 1)]


@packings
def test_packed(tmp_path: Path, packing: str) -> None:
    data = packed({"source": [s for s, _ in SOME], "target": [t for _, t in SOME], "note": [1, 2, 3]})
    assert sides(put(tmp_path / "en-de.parquet", data, packing)) == SOME


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
)
def test_any_type_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    columns = [pa.array([pair[side] for pair in SOME]).cast(pa.string()) for side in (0, 1)]
    table = pa.table(
        [
            column.cast(kind) if not pa.types.is_dictionary(kind) else column.dictionary_encode().cast(kind)
            for column in columns
        ],
        ["en", "de"],
    )
    assert sides(put(tmp_path / "x.parquet", packed(table))) == SOME


def test_numbers_are_read_as_text_and_lists_refused(tmp_path: Path) -> None:
    assert sides(put(tmp_path / "x.parquet", packed({"en": [1, 2], "de": [0.5, 2.5]}))) == [("1", "0.5"), ("2", "2.5")]
    path = put(tmp_path / "x.parquet", packed({"en": ["a"], "de": [["b"]]}))
    assert "the column de holds list<" in complaint(path).message


def test_the_hub_s_layouts(tmp_path: Path) -> None:
    nested = pa.array([{"en": "One.", "de": "Eins.", "id": None}, {"en": "Two.", "de": "Zwei.", "id": "Dua."}])
    found = rows(put(tmp_path / "x.parquet", packed({"translation": nested, "id": ["a", "b"]})))
    assert [(row["target"], row["language"], row["line"]) for row in found] == [
        ("Eins.", "de", 1),
        ("Zwei.", "de", 2),
        ("Dua.", "id", 2),
    ]
    path = put(tmp_path / "talks" / "en-de" / "train-00000-of-00001.parquet", packed({"english": ["a"], "non_english": ["b"]}))
    assert [(row["language"], row["source"]) for row in rows(path)] == [("de", "a")]


def test_columns_can_be_told_by_name_or_place(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.parquet", packed({"x": ["c"], "title": ["a"], "titel": ["b"], "margin": [1.25]}))
    assert sides(path, columns="source=title,target=titel") == sides(path, columns="source=2,target=3") == [("a", "b")]
    assert rows(path, columns="source=2,target=3,score=margin")[0]["score"] == 1.25
    for columns in ("source=2,target=9", "source=name,target=titel"):
        assert "no column" in complaint(path, columns=columns).message


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"en": ["a", None], "de": ["b", "c"]}, "row 2: the source side is empty"),
        ({"en": ["a", "b"], "de": ["b", " "]}, "row 2: the target (de) side is empty"),
        ({"en": ["a", "b"], "de": ["b", "c"], "fr": ["d", ""]}, "row 2: the target (fr) side is empty"),
        ({"en": ["a", "b"], "de": ["b", None], "fr": ["d", None]}, "row 2: the target (de) side is empty"),
        ({"en": ["a", "b"], "de": [b"b", b"\xff"]}, "row 2: de is not UTF-8"),
        ({"en": ["a", "b"], "de": ["c", "d"], "split": ["train", "dev"]}, "row 2: the split is 'dev'"),
        ({"en": ["a", "b"], "de": ["c", "d"], "score": [1.0, float("nan")]}, "row 2: the score is 'nan'"),
    ],
)
def test_a_bad_row_is_named_and_can_be_left_out(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = put(tmp_path / "x.parquet", packed(columns))
    assert message in complaint(path).message
    faults = Faults("skip")
    left = rows(path, faults)
    assert faults.count == 1 and {row["line"] for row in left} == {1}


def test_files_that_are_none(tmp_path: Path) -> None:
    whole = packed({"en": ["a"], "de": ["b"]})
    for data in (b"", b"PAR1", whole[:-10], whole[:40] + b"\xff" * 20 + whole[60:]):
        assert "not a readable Parquet file" in complaint(put(tmp_path / "x.parquet", data)).message
    path = put(tmp_path / "x.parquet", packed({"title": ["a"], "body": ["b"]}))
    assert "no columns to read pairs from; it has title, body" in complaint(path).message

"""Pairs in memory, whatever package they come from, are read as the same table in a file would be."""

from collections.abc import Callable
from typing import Any

import datasets
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import isogloss
from isogloss.config import CleaningSettings
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair

ROWS = [("Good day.", "Guten Tag.", "de"), ("Thank you.", "Danke.", "de"), ("Good day.", "Bonjour.", "fr")]
WIDE: list[dict[str, Any]] = [
    {"en": "Good day.", "de": "Guten Tag.", "fr": "Bonjour."},
    {"en": "Thank you.", "de": "Danke.", "fr": None},
]
NESTED: list[dict[str, Any]] = [{"id": 1, "translation": {"en": "Good day.", "de": "Guten Tag."}}]
MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dicts": list,
    "pyarrow": pa.Table.from_pylist,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "datasets": datasets.Dataset.from_list,
    "streamed": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
}


def triples(bitext: Bitext) -> list[tuple[str, str, str]]:
    return [(pair.source, pair.target, pair.language) for pair in bitext]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tables_of_all_packages(make: Callable[[list[dict[str, Any]]], Any]) -> None:
    named = make([dict(zip(("source", "target", "language"), row, strict=True)) for row in ROWS])
    assert triples(isogloss.read(named)) == ROWS
    assert sorted(triples(isogloss.read(make(WIDE)))) == sorted(ROWS)
    assert triples(isogloss.read(make(NESTED))) == ROWS[:1]
    other = make([{"text": "Good day.", "translated": "Guten Tag."}])
    assert triples(isogloss.read(other, language="de", columns="source=text,target=translated")) == ROWS[:1]


def test_an_index_of_pandas_is_not_a_column() -> None:
    frame = pd.DataFrame(WIDE).set_index(pd.Index(["de", "fr"], name="it"))
    assert isogloss.read(frame).languages == ("de", "fr")


def test_lists_of_tuples() -> None:
    assert triples(isogloss.read(ROWS)) == ROWS
    assert triples(isogloss.read([row[:2] for row in ROWS[:2]], language="deu")) == ROWS[:2]
    pairs = [Pair("a", "b", "de", "talks", "test"), Pair("c", "d", "fr", "news", "train")]
    assert list(isogloss.read(pairs)) == pairs, "corpus and split are kept"
    assert isogloss.read(ROWS, languages=["fr"]).languages == ("fr",)
    assert isogloss.read(Bitext.of(pairs)).hash == Bitext.of(pairs).hash


def test_preparing_takes_the_same_data() -> None:
    cleaning = CleaningSettings(min_language=0)
    for make in MAKERS.values():
        assert sorted(triples(isogloss.prepare(make(WIDE), cleaning, held_out=0).bitext)) == sorted(ROWS)
    german = isogloss.prepare([("Hello, you.", "Hallo, du.")], cleaning, held_out=0, language="de").bitext
    assert triples(german) == [("Hello, you.", "Hallo, du.", "de")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", "b")], "the list: the target language is not known"),
        ([("a", "b", "de"), ("c", "")], r"row 2 of the list is .* not a pair"),
        ([("a", "b", "de"), ("c", "", "de")], r"the list row 2: the target \(de\) side is empty"),
        ([{"text": "a"}], "no columns to read pairs from; it has text"),
        (pd.DataFrame({"text": ["a"], "label": [1]}), "DataFrame: no columns to read pairs from; it has text, label"),
        (datasets.DatasetDict(train=datasets.Dataset.from_list(WIDE)), "DatasetDict has several splits: train"),
        (7, "cannot read pairs from int"),
        ([], "no files were given"),
        (pa.table({"en": [], "de": []}), "Table: no pairs"),
    ],
)
def test_what_cannot_be_read_is_said(data: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        isogloss.read(data)


def test_bad_rows_can_be_skipped() -> None:
    assert triples(isogloss.read([*ROWS[:1], ("", "x", "de"), *ROWS[1:]], on_error="skip")) == ROWS

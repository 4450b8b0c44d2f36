"""JSONL: four spellings of a pair, and every line that is none of them is named."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading.malformed import Faults
from parallel import PAIRS, SOME, complaint, few, packings, put, rows, sides

SPELLINGS: dict[str, Callable[[str, str], dict[str, object]]] = {
    "sides": lambda s, t: {"source": s, "target": t, "language": "de", "id": 7},
    "codes": lambda s, t: {"url": "x", "eng": s, "de": t},
    "nested": lambda s, t: {"translation": {"de": t, "en": s}, "id": "1"},
    "hub": lambda s, t: {"english": s, "non_english": t},
}


@pytest.mark.parametrize("spelling", list(SPELLINGS))
@few
@given(pairs=PAIRS, ascii_only=st.booleans())
def test_every_spelling_comes_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, spelling: str, pairs: list[tuple[str, str]], ascii_only: bool
) -> None:
    text = "".join(json.dumps(SPELLINGS[spelling](*pair), ensure_ascii=ascii_only) + "\n" for pair in pairs)
    found = rows(put(tmp_path_factory.mktemp("x") / "talks.en-de.jsonl", text))
    assert [(row["source"], row["target"]) for row in found] == pairs
    assert {row["language"] for row in found} == {"de"}


@packings
def test_packed(tmp_path: Path, packing: str) -> None:
    path = put(tmp_path / "x.jsonl", "\n".join(json.dumps({"en": s, "de": t}) for s, t in SOME), packing)
    assert sides(path) == SOME


def test_many_languages_and_what_is_not_there(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x.jsonl",
        '{"en": "One.", "de": "Eins.", "fr": null, "split": "test", "score": 2}\n\n'
        '{"translation": {"en": "Two.", "id": "Dua.", "pt-BR": "Dois."}}\n',
    )
    assert [(row["target"], row["language"], row["split"], row["score"], row["line"]) for row in rows(path)] == [
        ("Eins.", "de", "test", 2.0, 1),
        ("Dua.", "id", "", None, 3),
        ("Dois.", "pt-BR", "", None, 3),
    ]


def test_keys_can_be_told(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", '{"premise": "a", "en": "no", "translated": "b"}\n')
    assert sides(path, columns="source=premise,target=translated", language="de") == [("a", "b")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"en": "a", ', "not JSON (Expecting property name"),
        ('["a", "b"]', "not a JSON object"),
        ('{"title": "a", "body": "b"}', "the keys are title, body"),
        ('{"translation": {"de": "a", "fr": "b"}}', "the keys are de, fr"),
        ('{"en": 5, "de": "b"}', "5 is not text"),
        ('{"en": "a", "de": ""}', "the target (de) side is empty"),
        ('{"en": "a", "de": null}', "the target (de) side is empty"),
        ('{"en": " ", "de": "b"}', "the source side is empty"),
        ('{"source": "a", "target": "b", "language": ""}', "the language is empty"),
        ('{"en": "a", "de": "b", "split": "dev"}', "the split is 'dev'"),
        ('{"en": "a", "de": "b", "score": [1]}', "the score is [1], not a number"),
        ('{"en": "a", "de": "b", "score": 1e999}', "the score is 'inf', not a number"),
        ('{"en": "\\ud800", "de": "b"}', "not JSON (unpaired surrogate"),
        ("[" * 100_000, "not JSON (nested too deeply)"),
        ('{"en": ' + "1" * 5000 + "}", "not JSON"),
        ("\ufeff{}", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_can_be_left_out(tmp_path: Path, line: str, message: str) -> None:
    good = '{"en": "One.", "de": "Eins."}\n'
    path = put(tmp_path / "x.jsonl", f"{good}{line}\n{good}")
    error = complaint(path)
    assert f"x.jsonl line 2: {message}" in error.message and len(error.message) < 500
    faults = Faults("skip")
    assert len(rows(path, faults)) == 2 and faults.count == 1


def test_a_language_that_nobody_told(tmp_path: Path) -> None:
    assert "the target language is not known" in complaint(put(tmp_path / "x.jsonl", '{"source": "a", "target": "b"}')).message

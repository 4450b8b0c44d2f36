"""Queries from every form that is read, and what is refused."""

import json
from pathlib import Path

import pytest

from isogloss.errors import IsoglossError
from isogloss.index.checking.query_sets import QuerySet, held_out_queries, queries_of_pairs, read_queries
from isogloss.types import TEST, TRAIN, Bitext, Pair

WIDE = "id\ten\tde\tpt_br\tgold\nq1\tcat\tKatze\tgato\ta b\nq2\tdog\t\tcão\t\n"
LONG = "id\tlanguage\ttext\tgold\nq1\ten\tcat\ta,b\nq1\tdeu\tKatze\t\nq2\ten\tdog\t\nq2\tpt-BR\tcão\nq1\tpt-BR\tgato\n"
RECORDS = [
    {"id": "q1", "en": "cat", "de": "Katze", "pt-BR": "gato", "gold": ["a", "b"]},
    {"id": "q2", "en": "dog", "de": "", "pt-BR": "cão"},
]
ROWS = [
    {"id": "q1", "language": "en", "text": "cat", "relevant": "a b"},
    {"id": "q1", "language": "de", "text": "Katze"},
    {"_id": "q1", "language": "pt-BR", "text": "gato"},
    {"id": "q2", "language": "en", "text": "dog"},
    {"id": "q2", "language": "pt-BR", "text": "cão"},
]


def lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def content(queries: QuerySet) -> dict[str, tuple[dict[str, str], list[str]]]:
    return {name: (one.texts, sorted(one.gold)) for name, one in queries.queries.items()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.tsv", WIDE),
        ("q.csv", WIDE.replace("\t", ",")),
        ("q.tsv", LONG),
        ("q.jsonl", lines(RECORDS)),  # type: ignore[arg-type]
        ("q.jsonl", lines(ROWS)),  # type: ignore[arg-type]
    ],
)
def test_every_form_has_the_same_content(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_queries(tmp_path / name)
    assert content(found) == {
        "q1": ({"en": "cat", "de": "Katze", "pt-BR": "gato"}, ["a", "b"]),
        "q2": ({"en": "dog", "pt-BR": "cão"}, []),
    }
    assert found.languages == ["de", "pt-BR"] and found.options == ("--queries", str(tmp_path / name))


def test_a_folder_has_a_file_per_language(tmp_path: Path) -> None:
    (tmp_path / "queries.en.tsv").write_text("id\ttext\nq1\tcat\ta\nq2\tdog\n", encoding="utf-8")
    (tmp_path / "queries.de.tsv").write_text("q1\tKatze\nq3\tMaus\n", encoding="utf-8")
    (tmp_path / "notes.tsv").write_text("x", encoding="utf-8")
    assert content(read_queries(tmp_path)) == {"q1": ({"en": "cat", "de": "Katze"}, ["a"]), "q2": ({"en": "dog"}, [])}


def test_a_retrieval_set_brings_its_gold() -> None:
    found = read_queries("questions")
    assert len(found.queries) == 120 and "tr" in found.languages and len(found.languages) == 12
    assert all(len(one.gold) == 1 for one in found.queries.values()) and found.queries["q01a"].gold == {"p01": 1.0}


def test_ids_and_gold_are_optional_and_indonesian_is_no_id(tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_text("en\tid\ncat\tkucing\n", encoding="utf-8")
    assert content(read_queries(tmp_path / "q.tsv")) == {"2": ({"en": "cat", "id": "kucing"}, [])}
    (tmp_path / "q.tsv").write_text("id\ten\tid\nq1\tcat\tkucing\n", encoding="utf-8")
    assert content(read_queries(tmp_path / "q.tsv")) == {"q1": ({"en": "cat", "id": "kucing"}, [])}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.tsv", "", "the file is empty"),
        ("q.tsv", "hello\tKatze\n", "its columns are hello, Katze"),
        ("q.tsv", "id\tde\nq1\tKatze\n", "its queries are in de, but the teacher needs them in English"),
        ("q.tsv", "id\ten\nq1\tcat\n", "queries in English only"),
        ("q.tsv", "id\ten\tde\nq1\tcat\n", "line 2: 2 columns, expected 3"),
        ("q.tsv", "id\ten\tde\nq1\tcat\tKatze\nq1\tcat\tKater\n", "line 3: a second text in en with the id q1"),
        ("q.tsv", "id\tlanguage\ttext\nq1\tenglish\tcat\n", "line 2: 'english' is not the code"),
        ("q.jsonl", '{"language": "en", "text": "cat"}\n', "line 1: it has no id"),
        ("q.jsonl", '{"id": "q1", "en": "cat"}\n[]\n', "line 2: not a JSON object"),
        ("q.jsonl", "{}\n", "there are no queries in it"),
        ("none.tsv", None, "none.tsv"),
    ],
)
def test_what_cannot_be_read_is_explained(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(IsoglossError) as caught:
        read_queries(tmp_path / name)
    assert said in caught.value.message and caught.value.hint


PAIRS = [
    Pair("cat", "Katze", "de", "", TRAIN),
    Pair("dog", "Hund", "de", "", TEST),
    Pair("dog", "Köter", "de", "", TEST),
    Pair("dog", "chien", "fr", "", TEST),
]


def test_held_out_pairs_are_queries_and_all_pairs_if_there_are_none() -> None:
    found = queries_of_pairs(Bitext.of(PAIRS), "mine")
    assert content(found) == {"1": ({"en": "dog", "de": "Hund", "fr": "chien"}, [])} and found.source_language == "en"
    every = queries_of_pairs(Bitext.of(PAIRS[:1]), "mine", ("--pairs", "x"))
    assert content(every) == {"1": ({"en": "cat", "de": "Katze"}, [])} and every.options == ("--pairs", "x")


def test_languages_and_numbers_can_be_limited() -> None:
    every = queries_of_pairs([("a", "x", "de"), ("a", "y", "fr"), ("b", "z", "de"), ("c", "w", "fr")], "mine")
    assert content(every.chosen((), 1)) == {"1": ({"en": "a", "de": "x", "fr": "y"}, [])}
    assert content(every.chosen(("fr",), 9)) == {"1": ({"en": "a", "fr": "y"}, []), "3": ({"en": "c", "fr": "w"}, [])}
    assert every.chosen(("fr",), 9).hash != every.hash == every.chosen((), 9).hash
    assert every.chosen(("fr-CA",), 9).languages == ["fr"]
    with pytest.raises(IsoglossError, match="no queries in tr") as caught:
        every.chosen(("de", "tr"), 9)
    assert caught.value.hint == "there are queries in de, fr"


def test_a_model_without_a_run_has_no_held_out_pairs(models: Path) -> None:
    with pytest.raises(IsoglossError, match="so there are no held-out queries") as caught:
        held_out_queries(str(models / "student"))
    assert "--queries" in caught.value.hint

"""Retrieval sets: three layouts of the same content are the same set, and what is wrong in a folder is said in a sentence."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from isogloss.corpora import questions
from isogloss.errors import DataError
from isogloss.evaluation.data.retrieval_sets import RetrievalSearch, open_retrieval_set
from made_up_sets import ASKED, STORIES, retrieval_beir, retrieval_columns, retrieval_tables

LAYOUTS = (retrieval_tables, retrieval_columns, retrieval_beir, partial(retrieval_beir, subfolders=True))


def answers(search: RetrievalSearch) -> dict[str, list[str]]:
    """Each query's text with the texts of its relevant documents, written out from a search."""
    texts, found = search.documents.texts[0], {}
    for query, relevant in zip(search.queries.texts[0], search.relevance, strict=True):
        found[query] = [texts[row] for row, grade in relevant.items() if grade > 0]
    return found


@pytest.mark.parametrize("write", LAYOUTS)
def test_layouts(write: Callable[[Path], Path], tmp_path: Path) -> None:
    found = open_retrieval_set(str(write(tmp_path / "asked")))
    assert found.name == "asked" and found.index_language == "en"
    across = {one.queries.language: answers(one) for one in found.across()}
    assert list(across)[-1] == "en"
    wanted = {code: {text: [STORIES["en"][n]] for n, (_, text) in enumerate(rows)} for code, rows in ASKED.items()}
    assert across == wanted
    (german,) = found.within()
    assert answers(german) == {text: [STORIES["de"][n]] for n, (_, text) in enumerate(ASKED["de"])}
    assert all(one.origin[0].path is not None and one.origin[0].path.is_file() for one in found.queries.values())
    assert list(found.in_languages(["de-AT"]).queries) == [one for one in found.queries if one != "ru"]
    with pytest.raises(DataError, match="asked has no queries in sw"):
        found.in_languages(["sw"])


def write(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")


def beir(folder: Path) -> Path:
    """Two documents, two queries, one of them with two answers of different grades."""
    write(folder / "corpus.jsonl", {"_id": "a", "text": "one"}, {"_id": "b", "title": None, "text": "two"})
    write(folder / "queries.jsonl", {"_id": "1", "text": "first"}, {"_id": "2", "text": "second"})
    write(folder / "qrels/test.tsv", "query-id\tcorpus-id\tscore", "1\ta\t1", "1\tb\t2", "2\ta\t0")
    return folder


def test_grades_and_queries_without_an_answer(tmp_path: Path) -> None:
    (search,) = open_retrieval_set(str(beir(tmp_path))).across()
    assert search.queries.ids == ["1"], "the second query has no relevant document"
    assert search.relevance == [{0: 1.0, 1: 2.0}]


def test_a_language_may_have_queries_and_documents_of_its_own(tmp_path: Path) -> None:
    beir(tmp_path)
    write(tmp_path / "de/corpus.jsonl", {"_id": "z", "text": "drei"})
    write(tmp_path / "de/queries.jsonl", {"_id": "9", "text": "dritte"})
    write(tmp_path / "de/qrels/test.tsv", "query-id\tcorpus-id\tscore", "9\tz\t1")
    found = open_retrieval_set(str(tmp_path))
    assert [one.queries.language for one in found.across()] == ["en"]
    assert [answers(one) for one in found.within()] == [{"dritte": ["drei"]}]


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no queries": (lambda folder: (folder / "queries.jsonl").unlink(), "queries.jsonl is missing"),
    "no qrels": (lambda folder: (folder / "qrels/test.tsv").unlink(), "qrels/test.tsv is missing"),
    "nothing": (lambda folder: (folder / "corpus.jsonl").unlink(), "no documents and queries there"),
    "empty qrels": (lambda folder: write(folder / "qrels/test.tsv", "query-id\tcorpus-id\tscore"), "no relevant document"),
    "only zeros": (lambda folder: write(folder / "qrels/test.tsv", "q\tc\ts", "1\ta\t0"), "no relevant document"),
    "unknown document": (
        lambda folder: write(folder / "qrels/test.tsv", "q\tc\ts", "1\tx\t1"),
        "the answer of query 1 is document x, which is not in .*corpus.jsonl",
    ),
    "unknown query": (lambda folder: write(folder / "qrels/test.tsv", "q\tc\ts", "1\ta\t1", "7\ta\t1"), "name query 7, which"),
    "two columns": (lambda folder: write(folder / "qrels/test.tsv", "q\tc\ts", "1\ta\t1", "1\ta"), "line 3: not a query id"),
    "no number": (lambda folder: write(folder / "qrels/test.tsv", "q\tc\ts", "1\ta\t1", "1\ta\tyes"), "line 3: not a query id"),
    "twice": (
        lambda folder: write(folder / "queries.jsonl", *[{"_id": "1", "text": "x"}] * 2),
        "line 2: the id 1 occurs twice",
    ),
    "no text": (lambda folder: write(folder / "corpus.jsonl", {"_id": "1"}), "corpus.jsonl line 1: it has no text"),
    "no JSON": (lambda folder: write(folder / "corpus.jsonl", "{"), "corpus.jsonl line 1: not JSON"),
    "empty": (lambda folder: write(folder / "queries.jsonl"), "queries.jsonl: the file is empty"),
    "two files": (lambda folder: write(folder / "queries.en.jsonl", {"_id": "1", "text": "x"}), "are both en"),
    "unused qrels": (lambda folder: write(folder / "de/qrels/test.tsv", "1\ta\t1"), ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_said(fault: str, tmp_path: Path) -> None:
    damage, message = FAULTS[fault]
    damage(beir(tmp_path))
    if not message:  # qrels of a language without queries are not used
        assert open_retrieval_set(str(tmp_path)).across()
        return
    with pytest.raises(DataError, match=message) as caught:
        [*open_retrieval_set(str(tmp_path)).across()]
    assert caught.value.hint


def test_tables_are_checked_too(tmp_path: Path) -> None:
    folder = retrieval_tables(tmp_path / "asked")
    (folder / "questions.fr.tsv.gz").write_bytes(gzip.compress(b"q1\tou est le chat ?\n"))
    with pytest.raises(DataError, match=r"questions.fr.tsv.gz line 1: 2 columns, expected 3 or more"):
        open_retrieval_set(str(folder))
    with pytest.raises(DataError, match="no such folder") as caught:
        open_retrieval_set(str(tmp_path / "nowhere"))
    assert "questions" in caught.value.hint


def test_the_bundled_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = open_retrieval_set(questions.NAME)
    assert found.name == questions.NAME and found.index_language == "en"
    for search in found.across():
        assert all(len(relevant) == 1 for relevant in search.relevance)
        assert len(search.queries.ids) == 120 and len(search.documents.ids) == 60
    assert {*found.queries} >= {"en", "ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr", "zh"}
    monkeypatch.chdir(tmp_path)
    retrieval_tables(tmp_path / questions.NAME)
    assert open_retrieval_set(questions.NAME).queries["de"].ids == found.queries["de"].ids
    assert len(open_retrieval_set(f"./{questions.NAME}").queries["de"].ids) == len(ASKED["de"])

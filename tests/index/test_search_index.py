"""Searching with text from Python: embedded, searched, with texts; what does not fit is refused or logged."""

from pathlib import Path

import numpy as np
import pytest

import isogloss as ig
from index.agreement import ROWS, Vectors, build, refuses, write_documents
from isogloss.config.indexing import BuildSettings
from isogloss.index.build_record import BuildRecord, read_record, record_in, record_path, write_record


@pytest.fixture
def address(tmp_path: Path) -> str:
    build(write_documents(tmp_path / "all.jsonl", range(20)), str(tmp_path / "docs.npy"))
    return str(tmp_path / "docs.npy")


def test_the_public_functions(address: str, caplog: pytest.LogCaptureFixture) -> None:
    model = Vectors()
    results = ig.search_index(model, ["query 3", "query 11"], address, k=2)
    assert [result.query for result in results] == ["query 3", "query 11"]
    assert [result.matches[0].id for result in results] == ["a3", "a11"]
    assert results[0].matches[0].text == "größter text 3" and results[0].matches[0].score == pytest.approx(1)
    with ig.open_index(address) as index:
        assert ig.search_index(model, ["query 3"], index, k=2)[0].matches == results[0].matches
    assert caplog.text == ""
    ig.search_index(Vectors("other"), ["query 3"], address)
    assert "was built with teacher, and other is another model; results are only good if" in caplog.text


def test_what_cannot_be_searched_is_explained(address: str, tmp_path: Path) -> None:
    model = Vectors()
    refuses(lambda: ig.search_index(model, "one", address), "was given one query, not a list")
    refuses(lambda: ig.search_index(model, [], address), "there are no queries")
    refuses(lambda: ig.search_index(model, ["a", " "], address), "there is an empty query")
    refuses(lambda: ig.search_index(Vectors(rows=ROWS[:, :3]), ["a"], address), "holds vectors of 5 dimensions, but teacher")
    np.save(tmp_path / "empty.npy", ROWS[:0])
    refuses(lambda: ig.search_index(model, ["a"], str(tmp_path / "empty.npy")), "the index is empty")


def test_a_prompt_belongs_to_a_model_that_is_opened_by_name(tmp_path: Path) -> None:
    settings = BuildSettings(prompt="passage: ")
    documents = write_documents(tmp_path / "all.jsonl", range(2))
    refuses(lambda: ig.build_index(Vectors(), documents, str(tmp_path / "x.npy"), settings), "has its own prompt")


def test_the_note_of_a_build(tmp_path: Path) -> None:
    record = BuildRecord("https://me:s3cret@host/v1#model", "abc", 5, "dot", "float16", "job", 7)
    write_record(tmp_path / "docs.npy", record)
    assert "s3cret" not in record_path(tmp_path / "docs.npy").read_text()
    found = read_record(tmp_path / "docs.npy")
    assert found is not None and (found.fingerprint, found.done, found.complete) == ("abc", 7, False)
    assert record_in(record.as_json()) == found and record.finished().complete
    for other in (None, "", "a comment", "{}", '{"isogloss": 3}', {"isogloss": {"model": "m"}}, b"\xff", {"isogloss": None}):
        assert record_in(other) is None
    record_path(tmp_path / "docs.npy").write_text(record_path(tmp_path / "docs.npy").read_text().replace("abc", "abd"))
    refuses(lambda: read_record(tmp_path / "docs.npy"), "the note of an index is damaged")
    assert read_record(tmp_path / "none.npy") is None

"""Questions and answers in the layouts that people have, and one clear sentence for what does not fit."""

import gzip
from pathlib import Path

import pytest

from isogloss.corpora.reading.question_answers import read_questions
from isogloss.errors import DataError

ROWS = [("Where is it?", "Behind the market."), ("Who sleeps?", "The cat."), ("Who sleeps?", "Nobody does.")]
LAYOUTS = {
    "plain.tsv": "".join(f"{q}\t{a}\n" for q, a in ROWS),
    "windows.tsv": "\ufeff" + "".join(f"{q}\t{a}\r\n" for q, a in ROWS) + "\r\n",
    "headed.tsv": "id\tAnswer\tQuestion\n" + "".join(f"{n}\t{a}\t{q}\n" for n, (q, a) in enumerate(ROWS)),
    "commas.csv": "question,answer\n" + "".join(f'"{q}",{a}\n' for q, a in ROWS),
    "objects.jsonl": "".join(f'{{"answer": "{a}", "lang": "en", "question": "{q}"}}\n\n' for q, a in ROWS),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_layouts_give_the_same_rows(name: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    data = LAYOUTS[name].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    found = read_questions([path, path])
    assert list(zip(found.questions, found.answers, strict=True)) == 2 * ROWS
    assert found.sentences() == ["Where is it?", "Who sleeps?", "Behind the market.", "The cat.", "Nobody does."]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "one?\tyes\nno tab\n", "line 2: 1 column, expected 2"),
        ("a.tsv", "one?\tyes\tno\n", "line 1: 3 columns, expected 2"),
        ("a.tsv", "question\tanswer\nwhat?\t \n", "line 2: the answer is empty"),
        ("a.tsv", "question\tanswer\n", "there are no questions in it"),
        ("a.jsonl", '{"question": "what?"}\n', "its columns are question"),
        ("a.jsonl", '{"question": "what?", "answer": null}\n', "line 1: the answer is empty"),
        ("a.jsonl", '["what?", "this"]\n', "line 1: not a JSON object"),
        ("a.jsonl", "what?\n", "line 1: not JSON"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        read_questions([path])
    assert str(path) in caught.value.message and caught.value.hint


def test_missing_files_and_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_questions([tmp_path / "none.tsv"])
    (tmp_path / "latin.tsv").write_bytes("wo?\tMünchen\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 1: not UTF-8"):
        read_questions([tmp_path / "latin.tsv"])


def test_the_hash_tells_questions_from_answers(tmp_path: Path) -> None:
    hashes = set()
    for text in ("a\tb\n", "b\ta\n", "a\tb\nb\ta\n"):
        (tmp_path / "x.tsv").write_text(text)
        hashes.add(read_questions([tmp_path / "x.tsv"]).hash)
    assert len(hashes) == 3

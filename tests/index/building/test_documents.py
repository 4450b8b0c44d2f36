"""Documents are read from every format as a stream; ids must be there and unique."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isogloss import IsoglossError
from isogloss.index.building.documents import Document, batches, read_documents, survey_documents

EXPECTED = [("1", "eins"), ("b", "Titel zwei"), ("c", "drei")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "docs.jsonl",
            '{"id": 1, "text": "eins"}\n\n{"_id": "b", "title": "Titel", "text": "zwei"}\n{"id": "c", "text": " drei\\u0000"}',
        ),
        ("docs.tsv", "1\teins\nb\tTitel zwei\nc\tdrei\n"),
        ("docs.tsv", "_id\ttitle\ttext\n1\t\teins\nb\tTitel\tzwei\r\nc\t\tdrei\n"),
        ("docs.csv", '"ID",Text,title\n1,eins,\nb,"zwei",Titel\nc,drei,\n'),
    ],
)
def test_formats_of_text(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    assert [tuple(one) for one in read_documents([tmp_path / name])] == EXPECTED
    assert [tuple(one) for one in read_documents([tmp_path / f"{name}.gz"])] == EXPECTED


def test_parquet(tmp_path: Path) -> None:
    table = {"n": [0, 0, 0], "text": ["eins", "zwei", "drei"], "title": [None, "Titel", ""], "doc_id": ["1", "b", "c"]}
    pq.write_table(pa.table(table), tmp_path / "docs.parquet", row_group_size=2)
    assert [tuple(one) for one in read_documents([tmp_path / "docs.parquet"])] == EXPECTED


def test_lines_have_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("eins\n\ndrei\tx\n")
    (tmp_path / "b.txt").write_text("vier")
    assert [tuple(one) for one in read_documents([str(tmp_path / "a.txt")])] == [("1", "eins"), ("2", ""), ("3", "drei\tx")]
    both = [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert [one.id for one in read_documents(both)] == ["a.txt:1", "a.txt:2", "a.txt:3", "b.txt:1"]
    found = survey_documents(both)
    assert (found.count, found.skipped) == (3, 1)
    assert found.hash != survey_documents(both[::-1]).hash != survey_documents(both[:1]).hash


def test_long_cells_of_csv(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text(f"id,text\na,{'x' * 200_000}\n")
    assert [len(one.text) for one in read_documents([tmp_path / "docs.csv"])] == [200_000]


def test_batches_leave_out_what_is_done_and_what_is_empty() -> None:
    documents = [Document(str(number), "" if number == 1 else "x") for number in range(6)]
    assert [[one.id for one in batch] for batch in batches(documents, 2, 0)] == [["0", "2"], ["3", "4"], ["5"]]
    assert [[one.id for one in batch] for batch in batches(documents, 2, 3)] == [["4", "5"]]
    assert list(batches(documents, 2, 5)) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("docs.jsonl", '{"text": "a"}\n', "docs.jsonl line 1: not the label of a row (it has no id)"),
        ("docs.jsonl", "eins\n", "docs.jsonl line 1"),
        ("docs.jsonl", "", "there are no documents"),
        ("docs.tsv", "eins\nzwei\n", "its columns are eins"),
        ("docs.tsv", "id\ttext\nb\n", "docs.tsv line 2: 1 column, expected 2"),
        ("docs.tsv", "\ta\n", "document 1 has no id"),
        ("docs.tsv", "a\tx\nb\ty\na\tz\n", "the id 'a' is that of documents 1 and 3"),
        ("docs.csv", "name,text\n1,2\n", "its columns are name, text"),
        ("docs.csv", 'id,text\n1,"2\n', "docs.csv"),
        ("docs.parquet", "nothing", "not a readable Parquet file"),
        ("docs.pdf", "x", "documents cannot be read from this file"),
        ("docs.txt", "\n \n", "there are no documents"),
        ("none.txt", None, "no such file"),
        ("none.parquet", None, "no such file"),
    ],
)
def test_what_cannot_be_read_is_explained(name: str, content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(IsoglossError) as caught:
        survey_documents([tmp_path / name])
    assert said in caught.value.message and caught.value.hint

"""Sentences of evaluation sets are found in any layout; labels, ids and scores are not taken for text."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isogloss.corpora.evaluation_text import evaluation_sets
from isogloss.errors import DataError


def texts(path: Path | str) -> dict[str, list[str]]:
    return {name: found.to_pylist() for name, found in evaluation_sets([str(path)])}


def test_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "tatoeba.deu-eng.deu.gz"
    path.write_bytes(gzip.compress(b"Ja.\nNein danke.\n\nJa.\n"))
    assert texts(path) == {path.name: ["Ja.", "Nein danke."]}


def test_sentences_and_scores(tmp_path: Path) -> None:
    path = tmp_path / "STS.txt"
    rows = [
        f"main-captions\tMSRvid\t2012test\t{n:04}\t{n % 6}.0\tA man is number {n}.\tA woman has {n} dogs.\n" for n in range(40)
    ]
    path.write_text("".join(rows))
    (found,) = texts(path).values()
    assert len(found) == 80 and found[0] == "A man is number 0." and found[1] == "A woman has 0 dogs."


def test_header_labels_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    rows = [f'"It rains, {n} times",neutral,"Sun {n} shines"\n' for n in range(30)]
    path.write_text("premise,label,hypothesis\n" + "".join(rows))
    (found,) = texts(path).values()
    assert len(found) == 60 and "premise" not in found and "neutral" not in found and "It rains, 3 times" in found


def test_ids_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "zh-en.en").write_text("".join(f"en-{n:09}\tSentence of the year {n}\n" for n in range(30)))
    (tmp_path / "zh-en.gold").write_text("".join(f"zh-{n:09}\ten-{n:09}\n" for n in range(30)))
    found = texts(tmp_path)
    assert list(found) == [f"{tmp_path.name}/zh-en.en"]
    assert all(text.startswith("Sentence") for text in found[f"{tmp_path.name}/zh-en.en"])


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    rows = [{"translation": {"en": f"Good day {n}", "de": f"Guten Tag {n}"}, "id": n} for n in range(25)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.table({"s": [f"One text {n}" for n in range(25)], "n": list(range(25))}), tmp_path / "b.parquet")
    found = texts(tmp_path)
    assert [len(one) for one in found.values()] == [50, 25]


def test_files_can_be_left_out_and_the_phrasebook_is_known(tmp_path: Path) -> None:
    for name in ("test.txt", "train.txt", "README.md", "LICENSE"):
        (tmp_path / name).write_text("Some sentence.\n")
    names = [name for name, _ in evaluation_sets([str(tmp_path), "phrasebook", "!*train*"])]
    assert names == [f"{tmp_path.name}/test.txt", "phrasebook (test)"]


@pytest.mark.parametrize("name", ["nowhere.txt", "nothing-*.tsv"])
def test_what_is_not_there_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no evaluation text there"):
        list(evaluation_sets([str(tmp_path / name)]))

"""Folders of judged pairs: all tables of one kind, and no guess where training lies beside tests."""

from pathlib import Path

import pytest

from isogloss.errors import DataError
from isogloss.runs.labelled_files import labelled_files


def folder_of(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    return place


def test_a_folder_is_all_its_tables_and_a_file_is_itself(tmp_path: Path) -> None:
    tables = ["b-train.tsv.gz", "inner/a.jsonl", "latest.CSV", "z.parquet"]
    others = ["README.tsv", "license.txt", ".hidden.tsv", ".git/x.tsv", "info.json", "notes.txt"]
    folder = folder_of(tmp_path / "nli", *tables, *others)
    found = labelled_files(["elsewhere.txt", str(folder)], "--nli")
    assert found == ("elsewhere.txt", *(str(folder / name) for name in sorted(tables)))
    assert labelled_files([], "--nli") == ()
    tests = folder_of(tmp_path / "dev", "sts-dev.csv", "other.dev.tsv")
    assert labelled_files([str(tests)], "--sts-dev") == (str(tests / "other.dev.tsv"), str(tests / "sts-dev.csv"))


@pytest.mark.parametrize(
    "names",
    [
        ("sts-dev.csv", "sts-test.csv", "sts-train.csv"),
        ("sts-test.csv", "sts.csv"),
        ("test/one.tsv", "training/one.tsv"),
        ("xnli_Validation.tsv", "xnli.tsv"),
    ],
)
def test_a_folder_with_tests_beside_training_is_not_guessed_at(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = folder_of(tmp_path / "set", *names)
    with pytest.raises(DataError, match="files of more than one split: ") as caught:
        labelled_files([str(folder)], "--sts")
    assert caught.value.hint == f"name the files you mean: --sts {folder / names[-1]}"


def test_a_folder_without_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder without a table") as caught:
        labelled_files([str(folder_of(tmp_path / "empty", "README.md"))], "--nli")
    assert ".tsv" in caught.value.hint

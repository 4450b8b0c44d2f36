"""What is wrong with names and places is said before anything is read, loaded or computed."""

import shutil
from pathlib import Path

import pytest

from isogloss import recipes
from isogloss.cli.app import main
from tiny import tiny_recipe


@pytest.fixture
def place(tmp_path: Path, models: Path, tsv: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tsv, "en-de.tsv")
    Path("file").write_text("")
    recipe = recipes.dump(tiny_recipe(models, tsv, tmp_path / "run"))
    Path("recipe.toml").write_text(recipe, encoding="utf-8")
    (tmp_path / "teacher").symlink_to(models / "teacher")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("mine unread.txt unread.txt --model ./gone", "./gone: no such folder"),
        ("mine unread.txt unread.txt --model teacher --out file/x.tsv", "file: cannot be written"),
        ("score unread.tsv --model ./gone", "./gone: no such folder"),
        ("score unread.tsv --model teacher --out file/x.tsv", "file: cannot be written"),
        ("embed unread.txt --model ./gone", "./gone: no such folder"),
        ("run recipe.toml --set teacher.model=./gone", "./gone: no such folder"),
        ("run recipe.toml --set student.model=./gone", "./gone: no such folder"),
        ("run recipe.toml --set output.cache=file", "the embedding cache cannot be used: file/vectors: cannot be written"),
        ("evaluate teacher ./gone --pairs unread.tsv", "./gone: no such folder"),
        ("evaluate teacher --teacher ./gone --pairs unread.tsv", "./gone: no such folder"),
    ],
)
def test_said_before_the_work(place: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and not out
    assert err.startswith(f"isogloss: {message}"), err

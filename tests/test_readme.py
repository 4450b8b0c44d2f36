"""The commands and code of the README and the tutorial run as they are printed; their tables are those of the result files.

The README's code, and the commands before the first that trains, open the models that are named there. The other commands and
the tutorial's code find tiny models in folders of those names: they do the same in a fraction of the time.
"""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from isogloss.cli.app import main
from judged import write_judged
from tiny import PAIRS, save_tiny_model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
    return found


def shell_lines(page: str) -> list[str]:
    return [line.split("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 900


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {line.split()[1] for line in shell_lines(README) if line.startswith("make ")}
    assert named == {"quickstart", "test"} <= targets


def test_the_readme_installs_what_exists() -> None:
    extras = re.findall(r"isogloss\[([a-z,]+)\]", README)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert extras
    for extra in ",".join(extras).split(","):
        assert re.search(rf"^{extra} = \[", project, flags=re.MULTILINE), extra
    assert [line for line in shell_lines(README) if line.startswith("isogloss ")] == ["isogloss quickstart"]


def write_evaluation_text(folder: Path) -> None:
    """The test's pairs as Tatoeba's test set, and as two files of sentences."""
    place = folder / "eval" / "tatoeba_laser_v1"
    place.mkdir(parents=True)
    for language, code in (("de", "deu"), ("ru", "rus")):
        pairs = [pair for pair in PAIRS if pair.language == language]
        (place / f"tatoeba.{code}-eng.eng").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (place / f"tatoeba.{code}-eng.{code}").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    (folder / "de.txt").write_text((place / "tatoeba.deu-eng.deu").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "en.txt").write_text((place / "tatoeba.deu-eng.eng").read_text(encoding="utf-8"), encoding="utf-8")


def write_models(folder: Path) -> None:
    """Tiny models that are found before the bundled ones: a folder's name goes first."""
    save_tiny_model(folder / "all-MiniLM-L6-v2", width=16, layers=1, seed=1, normalize=True)
    save_tiny_model(folder / "multilingual-e5-small", width=24, layers=4, seed=2, normalize=False)


def test_the_tutorial_runs_as_printed(
    tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tsv.name == "pairs.tsv", "the file that the tutorial names"
    lines = shell_lines(TUTORIAL)
    assert [shlex.split(line)[1] for line in lines] == [
        *("init", "doctor", "run", "evaluate", "evaluate"),
        *("corpora", "prepare", "corpora", "mine", "score"),
        *("finetune", "train-laser", "train-dual", "reproduce"),
    ]
    write_evaluation_text(tmp_path)
    write_judged(tmp_path)
    for line in lines:
        if line.startswith("isogloss run "):
            write_models(tmp_path)
        with pytest.raises(SystemExit) as caught:
            main(shlex.split(line)[1:])
        assert caught.value.code in (0, None), line
    shown = capsys.readouterr().out
    assert "average" in shown and "TED2020" in shown and "80  pairs read" in shown
    assert (tmp_path / "runs" / "mine" / "model" / "modules.json").exists()
    assert (tmp_path / "store" / "summary.html").exists()
    assert all((tmp_path / "runs" / name / "model" / "modules.json").exists() for name in ("sbert", "laser", "labse"))
    assert (tmp_path / "scored.tsv").read_text(encoding="utf-8").count("\n") > 1
    use, from_python = blocks(TUTORIAL, "python")
    exec(compile(use, "tutorial.md", "exec"), {})
    assert "(1, 16)" in capsys.readouterr().out, "the teacher's dimension"
    exec(compile(from_python, "tutorial.md", "exec"), {})
    assert "LanguageScores(language='average'" in capsys.readouterr().out
    assert (tmp_path / "my-trimmed-model" / "modules.json").exists()


def test_the_readme_runs_as_printed(
    tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tsv.exists()
    (code,) = blocks(README, "python")
    exec(compile(code, "README.md", "exec"), {})
    assert "LanguageScores(language='average'" in capsys.readouterr().out
    assert (tmp_path / "my-model" / "modules.json").exists()


def test_tables_are_those_of_the_result_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))
    pages = tables["PAGES"]
    assert {path.name for path in pages} == {
        *("README.md", "benchmarks.md", "dependencies.md", "keep-your-index.md", "mining.md", "robustness.md")
    }
    for path, fill in pages.items():
        page = path.read_text(encoding="utf-8")
        assert fill(page) == page and "<!-- " in page, path


def test_every_mark_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt mark would leave old numbers in place: each one's block changes back if its digits are changed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))
    for path, fill in tables["PAGES"].items():
        page = path.read_text(encoding="utf-8")
        for mark in re.findall(r"<!-- ([a-z-]+) -->", page):
            place = page.index(f"<!-- {mark} -->") + len(f"<!-- {mark} -->")
            digit = re.search(r"\d", page[place:])
            assert digit, mark
            at = place + digit.start()
            changed = page[:at] + ("1" if page[at] != "1" else "2") + page[at + 1 :]
            assert fill(changed) == page, mark

"""The README's commands and code run as they are printed; its tables are those of the result files.

The code, and the commands before the first that trains, open the models that the README names. The other commands find
tiny ones in folders of those names: they do the same in a fraction of the time.
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


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    return found


def shell_lines() -> list[str]:
    return [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {line.split()[1] for line in shell_lines() if line.startswith("make ")}
    assert named == {"quickstart", "test"} <= targets


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


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
    """Tiny models that are found before those that packages carry: a folder's name goes first."""
    save_tiny_model(folder / "all-MiniLM-L6-v2", width=16, layers=1, seed=1, normalize=True)
    save_tiny_model(folder / "multilingual-e5-small", width=24, layers=4, seed=2, normalize=False)


def test_commands_run_as_printed(
    tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tsv.name == "pairs.tsv", "the file the README names"
    lines = [line for line in shell_lines() if line.startswith("isogloss ")]
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


def test_python_runs_as_printed(
    tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tsv.exists()
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "LanguageScores(language='average'" in capsys.readouterr().out
    assert (tmp_path / "my-model" / "modules.json").exists()


def test_tables_are_those_of_the_result_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    assert "<!-- papers-table -->" in README
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))
    assert tables["readme"](README) == README
    page = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    assert tables["robustness"](page) == page and "| kill -9 at random moments |" in page

"""`isogloss train-dual` as a person meets it, and the verbs that use what it leaves."""

import json
from pathlib import Path

import pytest

from isogloss.cli.app import main
from tiny import PAIRS


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Shell":
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


class Shell:
    """The real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([*map(str, arguments)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


def test_trained_then_evaluated_and_mined_with(shell: Shell, models: Path, tsv: Path) -> None:
    small = (
        "--epochs",
        2,
        "--batch",
        16,
        "--learning-rate",
        1e-3,
        "--max-tokens",
        32,
        "--device",
        "cpu",
        "--max-candidates",
        20,
        "--set",
        "training.dev_pairs=0",
        "--set",
        "cleaning.max_characters=999",
    )
    given = ("train-dual", tsv, "--like", "labse", "--student", models / "student", "--out", "runs/x", *small)
    code, out, err = shell(*given)
    assert code == 0, err
    assert "8 held-out sentences per language, searched among 20 (" in out
    assert "untouched, rank" in out and "Model: runs/x/model" in out and "rank" in err
    code, out, _ = shell(*given, "--json")
    told = json.loads(out)
    record = json.loads(Path("runs/x/run.json").read_text())
    assert record["recipe"]["training"]["dev_pairs"] == 0 and record["recipe"]["cleaning"]["max_characters"] == 999
    assert code == 0 and set(told["stages"]) == {"untouched", "rank"} and told["model"] == "runs/x/model"
    code, out, err = shell("evaluate", "runs/x", "--pairs", tsv, "--teacher", "", "--json")
    assert code == 0 and json.loads(out), err
    german = {pair.source: pair.target for pair in PAIRS if pair.language == "de"}
    Path("a.en").write_text("\n".join(german) + "\n", encoding="utf-8")
    Path("a.de").write_text("\n".join(german.values()) + "\n", encoding="utf-8")
    mined = ("--out", "mined.tsv", "--threshold", 0, "--min-language", 0, "--device", "cpu")
    code, _, err = shell("mine", "a.en", "a.de", "--model", "runs/x", *mined)
    assert code == 0 and Path("mined.tsv").read_text(encoding="utf-8").count("\n") > 1, err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--like", "muse"], "missing: NLI files and question-answer files"),
        (["--qa", "none.tsv"], "none.tsv: no such file"),
        (["--shares", "a,b"], "expected numbers"),
        (["--hard-negatives", "5", "--rounds", "1"], "rounds"),
        (["--margin", "7"], "margin"),
    ],
)
def test_bad_input_is_a_sentence_a_hint_and_exit_code_2(arguments: list[str], said: str, shell: Shell, tsv: Path) -> None:
    code, _, err = shell("train-dual", tsv, *arguments, "--out", "runs/x")
    assert code == 2 and said in err and "hint:" in err and "Traceback" not in err


def test_help_names_the_papers(shell: Shell) -> None:
    code, out, _ = shell("train-dual", "--help")
    assert code == 0 and "muse|labse" in out

"""`isogloss train-laser`, and the verbs that take what it leaves."""

import json
from pathlib import Path

import pytest

from isogloss.cli.app import main
from tiny import PAIRS

SMALL = ("--scale", "lab", "--vocabulary", 200, "--embedding", 8, "--hidden", 8, "--layers", 1, "--decoder", 12)


class Call:
    """The real entry point in this process, in a folder of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(one) for one in arguments])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    return Call(capsys)


def test_from_pairs_to_a_model_that_the_other_verbs_take(isogloss: Call, tsv: Path) -> None:
    arguments = ("train-laser", tsv, "--targets", "en,ru", *SMALL, "--steps", 4, "--device", "cpu", "--out", "runs/laser")
    code, out, err = isogloss(*arguments, "--json")
    assert code == 0, err
    results = json.loads(out)
    assert results["model"] == "runs/laser/model" and set(results["stages"]["translate"]["languages"]) == {"de", "ru"}
    recipe = json.loads(Path("runs/laser/run.json").read_text())["recipe"]
    assert recipe["stage"][0]["targets"] == ["en", "ru"] and recipe["training"]["batch_pairs"] == 64
    code, out, err = isogloss(*arguments)
    assert code == 0 and "Model: runs/laser/model" in out and "reused" in err, err

    code, out, err = isogloss("evaluate", "runs/laser", "--pairs", tsv, "--json")
    assert code == 0, err
    assert "de" in out and "ru" in out

    for column, name in enumerate(("en", "de")):
        sentences = [(pair.source, pair.target)[column] for pair in PAIRS if pair.language == "de"]
        Path(f"{name}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    code, _, err = isogloss("mine", "en.txt", "de.txt", "--model", "runs/laser", "--out", "mined.tsv")
    assert code == 0 and Path("mined.tsv").is_file(), err

    code, _, err = isogloss("embed", "en.txt", "--model", "runs/laser", "--out", "v.npy")
    assert code == 0, err


def test_what_does_not_fit_ends_with_a_hint(isogloss: Call, tsv: Path) -> None:
    for arguments, message in (
        (("--targets", "en,es"), "there are no pairs of en and es, the second target language; there are: de, ru"),
        (("--targets", "de,ru"), "the source side of the pairs is en"),
        (("--targets", "en"), "there must be two different languages"),
        (("--targets", "en,de", "--scale", "huge"), "scale = 'huge' is not known"),
        (("--targets", "en,de", "--hidden", 0), "--hidden 0"),
        (("--targets", "en,de", "--device", "tpu"), "'tpu' is not known"),
        (("--targets", "en,de", "--languages", "ru"), "there are no pairs of en and de"),
    ):
        code, _, err = isogloss("train-laser", tsv, *SMALL, *arguments)
        assert code == 2 and message in err and "hint: " in err, err
    code, _, err = isogloss("train-laser", "nowhere.tsv", *SMALL)
    assert code == 2 and "nowhere.tsv" in err

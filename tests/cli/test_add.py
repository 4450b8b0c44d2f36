"""`isogloss add` as a person meets it: the table, what was added, a refusal with exit code 2, JSON."""

import json
from pathlib import Path

import pytest

from additions import german_recipe, record_of, snapshot, write_pairs
from isogloss.cli.app import main
from isogloss.runs.pipeline import run


@pytest.fixture(scope="module")
def place(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run in German and pairs of Russian."""
    folder = tmp_path_factory.mktemp("cli-add")
    write_pairs(folder / "en-ru.tsv", ("ru",))
    run(german_recipe(models, write_pairs(folder / "pairs.tsv"), folder / "runs" / "mine"))
    return folder


class Shell:
    """Runs the real entry point in a folder: exit code, standard output, standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(place)
    return Shell(capsys)


def test_help_is_short_and_has_an_example(isogloss: Shell) -> None:
    code, out, _ = isogloss("add", "--help")
    assert code == 0 and "isogloss add runs/mine sw en-sw.tsv --out runs/with-sw" in out
    assert len(out.splitlines()) < 60


def test_a_language_is_added_and_said_so(isogloss: Shell, place: Path) -> None:
    line = ("add", "runs/mine", "ru", "en-ru.tsv", "--replay", "0.5", "--set", "training.epochs=2")
    code, out, err = isogloss(*line, "--gate", "off")
    assert code == 0, err
    assert "in each column: before, grown, after" in out and "Model: runs/with-ru/model" in out
    assert "Added ru to runs/mine, with 16 old pairs seen again." in out and "existing text is tokenized as before" in out
    assert "when the teacher's index is searched; the gate was off." in out
    assert record_of(place / "runs" / "with-ru")["recipe"]["training"]["epochs"] == 2
    code, out, err = isogloss(*line, "--gate", "99", "--gate-on", "from_source", "--json")
    assert code == 0 and "reused: training was finished" in err
    told = json.loads(out)
    assert told["added"] == ["ru"] and told["gate"]["most"] == 99 and told["gate"]["measure"] == "from_source"
    assert told["pairs"]["replayed"] == {"de": 16}
    assert set(told["stages"]) == {"before", "grown", "after"}


def test_a_refusal_is_a_table_a_sentence_and_exit_2(isogloss: Shell, place: Path) -> None:
    finished = snapshot(place / "runs" / "mine" / "model")
    wild = ("training.learning_rate=0.3", "training.warmup=0.0", "training.epochs=2")
    changes = [word for change in wild for word in ("--set", change)]
    line = ("add", "runs/mine", "ru", "en-ru.tsv", *changes, "--out", "runs/wild", "--gate", "2")
    code, out, err = isogloss(*line)
    assert code == 2 and "average" in out
    sentence, hint = err.strip().splitlines()[-2:]
    assert sentence.startswith("isogloss: de lost ") and sentence.endswith("more than the 2 allowed: ru not added")
    assert "when the teacher's index is searched" in sentence
    assert hint.startswith("hint: the candidate is in runs/wild/work/candidate")
    assert not (place / "runs" / "wild" / "model").exists() and snapshot(place / "runs" / "mine" / "model") == finished
    code, out, err = isogloss(*line, "--json")
    told = json.loads(out)
    assert code == 2 and told["gate"]["refused"] and told["gate"]["lost"]["de"] > 2
    assert told["model"] == "runs/wild/work/candidate/model" and (place / told["model"] / "modules.json").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("runs/mine ru en-ru.tsv --gate much", "--gate much: expected a number of percentage points, or off"),
        ("runs/mine ru en-ru.tsv --gate nan", "gate is not a finite number"),
        ("runs/mine ru en-ru.tsv --gate-on luck", "gate_on = 'luck' is not known"),
        ("runs/mine , en-ru.tsv", "languages has too few values"),
        ("runs/mine de en-ru.tsv", "de is already one of its languages"),
        ("runs/mine sw pairs.tsv", "no pairs for sw"),
        ("runs/gone ru en-ru.tsv", "runs/gone: no such folder"),
        ("runs/mine ru gone.tsv", "gone.tsv: no such file"),
        ("runs/mine ru en-ru.tsv --out runs/mine", "must not change"),
        ("runs/mine ru en-ru.tsv --out runs/new --on-error never", "never"),
        ("runs/mine ru en-ru.tsv --set training.epoch=1", "unknown key training.epoch"),
    ],
)
def test_what_a_person_can_get_wrong_is_one_sentence_and_a_hint(isogloss: Shell, line: str, message: str) -> None:
    code, _, err = isogloss("add", *line.split())
    assert code == 2, err
    sentence, hint = err.strip().splitlines()[-2:]
    assert message in sentence and sentence.startswith("isogloss: ") and hint.startswith("hint: ")


def test_stopped_it_says_that_it_continues(isogloss: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isogloss.runs.adding.add", stop)
    code, _, err = isogloss("add", "runs/mine", "ru", "en-ru.tsv")
    assert code == 130 and "The same command continues from here" in err


IDLE = (
    "--gate",
    "off",
    "--set",
    "training.dev_pairs=4",
    "--set",
    "training.dev_share=0.3",
    "--set",
    "training.learning_rate=0",
)


def test_an_addition_that_changed_nothing_does_not_say_that_it_added(isogloss: Shell, place: Path, models: Path) -> None:
    """Steps of length 0 are no better than the start; Bulgarian is Russian backwards, which the student can spell already."""
    write_pairs(place / "en-bg.tsv", ("bg",))
    run(german_recipe(models, place / "pairs.tsv", place / "runs" / "both", "languages=de,ru", "training.epochs=2"))
    code, out, err = isogloss("add", "runs/both", "bg", "en-bg.tsv", "--set", "training.epochs=1", *IDLE)
    assert code == 0, err
    assert "Added" not in out and "! no step of the training did better on the dev pairs" in out.replace("\n", " ")
    assert "nothing was learned for bg: no checkpoint was better on the dev pairs than runs/both" in out
    assert "and its vocabulary lacked nothing, so the model is unchanged." in out
    results = json.loads((place / "runs" / "with-bg" / "results.json").read_text())
    assert results["changed"] == [] and results["training"]["distill"]["best_step"] == 0
    card = (place / "runs" / "with-bg" / "model" / "README.md").read_text()
    assert "training did not improve it, so the weights are unchanged" in card and "| nothing |" in card


def test_an_addition_that_only_grew_says_so(isogloss: Shell, place: Path) -> None:
    line = ("add", "runs/mine", "ru", "en-ru.tsv", "--out", "runs/grown", "--set", "training.epochs=1", *IDLE)
    code, out, err = isogloss(*line)
    assert code == 0, err
    assert "Added" not in out and "than runs/mine, so only its vocabulary has grown." in out
    assert json.loads((place / "runs" / "grown" / "results.json").read_text())["changed"] == ["vocabulary"]

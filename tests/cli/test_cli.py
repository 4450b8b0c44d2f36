"""The command line as a person meets it: help, verbs, errors in one sentence, exit codes."""

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isogloss import recipes
from isogloss.cli.app import _warnings, main
from isogloss.shown import printable
from tiny import UNTAUGHT, tiny_recipe

VERBS = (
    "quickstart",
    "run",
    "forecast",
    "init",
    "prepare",
    "corpora",
    "embed",
    "distill",
    "finetune",
    "train-laser",
    "train-dual",
    "reproduce",
    "add",
    "launch",
    "evaluate",
    "mine",
    "score",
    "doctor",
    "clean",
)


class Answer:
    """What a command printed and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Call":
    monkeypatch.chdir(tmp_path)
    return Call(capsys)


class Call:
    """Runs the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Answer:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return Answer(int(caught.value.code or 0), captured.out, captured.err)


IMPORTED_BY_HELP = """
import sys
before = set(sys.modules)
from isogloss.cli.app import main
try:
    main(["--help"])
except SystemExit:
    print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""


def test_help_answers_at_once() -> None:
    """What takes time is importing: the help needs typer, pydantic, the verbs' own files, and little else."""
    done = subprocess.run([sys.executable, "-c", IMPORTED_BY_HELP], capture_output=True, text=True, check=True)
    assert all(verb in done.stdout for verb in VERBS)
    imported = done.stderr.split()
    others = {name.split(".")[0] for name in imported if not name.startswith("_sysconfigdata")}
    others -= {*sys.stdlib_module_names, "isogloss", "isogloss_papers"}
    typers, pydantics = {"annotated_doc", "colorama", "shellingham"}, {"annotated_types", "pydantic_core", "typing_inspection"}
    assert others <= {"typer", "pydantic", "typing_extensions", *typers, *pydantics}
    assert len(imported) < 400, "191 with Python 3.11"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_short_help_with_an_example(isogloss: Call, verb: str) -> None:
    answer = isogloss(verb, "--help")
    assert answer.code == 0
    assert f"isogloss {verb}" in answer.out.split("Options")[0].split("Usage", 1)[1].split("\n", 1)[1]
    assert len(answer.out.splitlines()) < 70


WITHOUT_THE_PAPERS = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "isogloss_papers" else find_spec(name, package)
from isogloss.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("arguments", [(), ("--help",), ("rg-table-2", "--data", "data", "--json")])
def test_reproduce_without_its_package_says_what_to_install(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", WITHOUT_THE_PAPERS]
    done = subprocess.run([*command, "reproduce", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    first, hint = done.stderr.splitlines()
    assert first.startswith("isogloss: reproduce is in a package of its own, isogloss-papers")
    assert hint.startswith("hint: pip install 'isogloss[papers]'")
    listed = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "train-laser" in listed and "reproduce" not in listed


def test_version(isogloss: Call) -> None:
    assert isogloss("--version").out.startswith("isogloss 0.")


def test_the_whole_road_on_ones_own_files(isogloss: Call, models: Path, tsv: Path, tmp_path: Path) -> None:
    made = isogloss("init", "--pairs", tsv, "--teacher", models / "teacher", "--student", models / "student", "--name", "mine")
    assert made.code == 0 and "isogloss run recipe.toml" in made.err
    assert isogloss("init").code == 2
    healthy = isogloss("doctor", "recipe.toml", "--set", "student.max_tokens=32")
    assert healthy.code == 0 and "! ru" in healthy.out and "32 to train on, 8 held out; " in healthy.out
    done = isogloss("run", "recipe.toml", "--set", "training.epochs=1", "--set", "student.max_tokens=32", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["stages"]["average"]["average"]["queries"] == 16
    again = isogloss("run", "recipe.toml", "--set", "training.epochs=1", "--set", "student.max_tokens=32")
    assert "reused" in again.err and "Use it:" in again.out and "runs/mine/model" in again.out
    (tmp_path / "lines.txt").write_text("the cat sleeps at night.\n\nкошка спит ночью.\n", encoding="utf-8")
    embedded = isogloss("embed", "lines.txt", "--model", "runs/mine", "--out", "v.npy", "--json")
    assert json.loads(embedded.out) == {"path": "v.npy", "rows": 3, "dimension": 16}
    assert np.load(tmp_path / "v.npy").shape == (3, 16)
    measured = isogloss("evaluate", "runs/mine", models / "teacher", "--teacher", models / "teacher", "--pairs", tsv)
    assert measured.code == 0 and "average" in measured.out and "40 candidates" in measured.out
    as_json = json.loads(isogloss("evaluate", "runs/mine", "--teacher", "", "--pairs", tsv, "--json").out)
    assert as_json[0]["average"]["teacher_index"] is None


def test_distill_without_a_recipe(isogloss: Call, models: Path, tsv: Path) -> None:
    done = isogloss(
        "distill",
        tsv,
        "--teacher",
        models / "teacher",
        "--student",
        models / "student",
        "--out",
        "runs/d",
        "--set",
        "training.epochs=1",
        "--set",
        "student.max_tokens=32",
        "--fresh",
        "--json",
    )
    assert done.code == 0 and Path("runs/d/model/modules.json").exists()


def test_prepare_shows_what_was_left_out(isogloss: Call, tsv: Path) -> None:
    with tsv.open("a", encoding="utf-8") as handle:
        handle.write("train\tHotel\tHotel\tотель\n")
    shown = isogloss("prepare", tsv, "--out", "store", "--explain", "2")
    assert "82  pairs read" in shown.out and "-1  identical sides" in shown.out and "Hotel ↔ Hotel" in shown.out
    as_json = json.loads(isogloss("prepare", tsv, "--out", "store", "--explain", "1", "--json").out)
    assert as_json["rows_out"] == 81 and as_json["explained"]["identical sides"][0]["source"] == "Hotel"
    limited = json.loads(
        isogloss("prepare", tsv, "--out", "store", "--max-per-language", "7", "--max-per-corpus", "9", "--json").out
    )
    assert {counts["train"] for counts in limited["languages"].values()} == {7}
    assert {one["rule"]: one["count"] for one in limited["dropped"]}["over the limit per language"] == 2 * (9 - 7)
    assert isogloss("prepare", tsv, "--on-error", "perhaps").code == 2


def errors() -> list[tuple[str, bytes, str]]:
    return [
        ("one column", b"a\tb\nalone\n", "en-de.tsv line 2: 1 column, expected 2 or more"),
        ("not UTF-8", b"a\tb\n\xff\xfe\tc\n", "en-de.tsv line 2: not UTF-8"),
        ("empty side", b"a\tb\nc\t\n", "en-de.tsv line 2: the target (de) side is empty"),
    ]


@pytest.mark.parametrize(("name", "data", "message"), errors(), ids=[name for name, *_ in errors()])
def test_bad_pairs_are_one_sentence_a_hint_and_exit_2(
    isogloss: Call, models: Path, tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / "en-de.tsv").write_bytes(data)
    answer = isogloss("distill", "en-de.tsv", "--teacher", models / "teacher", "--student", models / "student")
    assert answer.code == 2
    first, second = answer.err.strip().splitlines()[-2:]
    assert first == f"isogloss: {message}" or first.startswith(f"isogloss: {message}")
    assert second.startswith("hint: ")
    assert "Traceback" not in answer.err


def test_an_output_never_replaces_its_input(isogloss: Call, tsv: Path, models: Path) -> None:
    before = tsv.read_bytes()
    assert "is a file, but a store is a folder" in isogloss("prepare", tsv, "--out", tsv).err
    assert "is also an input" in isogloss("embed", tsv, "--model", models / "teacher", "--out", tsv).err
    assert tsv.read_bytes() == before


def test_missing_file_and_debug(isogloss: Call) -> None:
    answer = isogloss("prepare", "gone.tsv")
    assert answer.code == 2 and answer.err.startswith("isogloss: gone.tsv: no such file\nhint: ")
    assert "Traceback" in isogloss("--debug", "prepare", "gone.tsv").err
    assert "Traceback" in isogloss("prepare", "gone.tsv", "--debug").err


def test_nan_teacher_and_missing_bridge(isogloss: Call, models: Path, tsv: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(models / "teacher", tmp_path / "nan")
    weights = load_file(tmp_path / "nan" / "model.safetensors")
    weights["embeddings.LayerNorm.bias"][:] = float("nan")
    save_file(weights, tmp_path / "nan" / "model.safetensors", metadata={"format": "pt"})
    base = ["distill", tsv, "--student", models / "student", "--set", "student.max_tokens=32", "--set", "training.epochs=1"]
    broken = isogloss(*base, "--teacher", tmp_path / "nan")
    assert broken.code == 2 and "vectors are not finite" in broken.err and "hint: " in broken.err
    unbridged = isogloss(*base, "--teacher", models / "teacher", "--set", "bridge.enabled=false")
    assert unbridged.code == 2 and "gives 24-d vectors, the teacher 16-d" in unbridged.err


def test_a_recipe_that_follows_a_teacher_needs_one(isogloss: Call, models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "untaught.toml"
    recipe.write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / "run", *UNTAUGHT)), encoding="utf-8")
    refused = isogloss("run", recipe, "--set", "losses.mse=1")
    assert refused.code == 2 and not (tmp_path / "run").exists()
    assert refused.err == (
        "isogloss: losses.mse needs a teacher, but there is none\nhint: set teacher.model, or set losses.mse = 0\n"
    )
    untaught = (*UNTAUGHT, "losses.bank_similarity=0")
    refused = isogloss("quickstart", *(part for one in untaught for part in ("--set", one)))
    assert refused.code == 2 and "quickstart needs a teacher, but teacher.model is empty" in refused.err


def test_wrong_keys_usage_and_stopping(
    isogloss: Call, models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.toml").write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / "run")), encoding="utf-8")
    wrong = isogloss("run", "r.toml", "--set", "training.epoch=1")
    assert wrong.code == 2 and "did you mean training.epochs?" in wrong.err
    assert isogloss("run").code == 2
    assert isogloss("nonsense").code == 2

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isogloss.runs.pipeline.run", stop)
    stopped = isogloss("run", "r.toml")
    assert stopped.code == 130 and "The same command continues from here" in stopped.err


def test_a_place_that_cannot_be_written_is_said(isogloss: Call, models: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("the cat\n")
    (tmp_path / "file").write_text("in the way")
    answer = isogloss("embed", "x.txt", "--model", models / "teacher", "--out", "file/v.npy")
    assert answer.code == 2
    assert "cannot be written" in answer.err and "it is a file, not a folder" in answer.err


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a place where nothing can be made")
def test_a_folder_that_cannot_be_made_is_said(isogloss: Call, models: Path, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / "run")), encoding="utf-8")
    answer = isogloss("run", "r.toml", "--set", "output.folder=/proc/runs")
    assert answer.code == 2 and answer.err.startswith(
        "isogloss: /proc/runs: cannot be written (nothing can be created there)\n"
    )


def test_a_training_that_made_it_worse_is_said_under_the_table(isogloss: Call, models: Path, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / "run")), encoding="utf-8")
    wild = ["training.learning_rate=0.5", "training.warmup=0.0", "training.dev_pairs=0", "training.train_layers=0"]
    wild += ["losses.mse=0.001", "losses.ranking=1", "training.epochs=6"]
    answer = isogloss("run", "r.toml", *(part for one in wild for part in ("--set", one)))
    assert answer.code == 0
    table, _, after = answer.out.partition("\n! on the held-out pairs the model is worse than the bridge alone: ")
    assert "average" in table and "; lower training.learning_rate" in after.splitlines()[0]


@pytest.fixture
def speechless(models: Path, tmp_path: Path) -> Path:
    """The tiny student's folder without the files of its tokenizer."""
    folder = tmp_path / "speechless"
    shutil.copytree(models / "student", folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    return folder


def test_a_model_without_a_tokenizer_is_refused_by_every_verb(
    isogloss: Call, models: Path, tsv: Path, tmp_path: Path, speechless: Path
) -> None:
    (tmp_path / "r.toml").write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / "run")), encoding="utf-8")
    (tmp_path / "x.txt").write_text("the cat\nthe dog\n")
    (tmp_path / "nli.tsv").write_text("the cat\ta cat\tentailment\nthe dog\ta cat\tcontradiction\n")
    teacher = models / "teacher"
    for verb in (
        ("run", "r.toml", "--set", f"student.model={speechless}"),
        ("run", "r.toml", "--set", f"teacher.model={speechless}"),
        ("run", "r.toml", "--set", f"cleaning.similarity_model={speechless}"),
        ("embed", "x.txt", "--model", speechless),
        ("evaluate", speechless, "--pairs", tsv, "--teacher", teacher),
        ("evaluate", teacher, "--pairs", tsv, "--teacher", speechless),
        ("mine", "x.txt", "x.txt", "--keep-identical", "--model", speechless),
        ("score", tsv, "--model", speechless),
        ("prepare", tsv, "--set", f"cleaning.similarity_model={speechless}", "--out", "store"),
        ("distill", tsv, "--teacher", teacher, "--student", speechless),
        ("finetune", speechless, "--nli", "nli.tsv"),
        ("train-dual", tsv, "--student", speechless),
    ):
        answer = isogloss(*verb)
        assert answer.code == 2, verb
        assert f"isogloss: {speechless}: its tokenizer is missing or empty" in answer.err.replace("\n", " "), (verb, answer.err)
        assert "hint: is the folder complete?" in answer.err


def test_terminal_escapes_in_names_do_not_reach_the_screen(isogloss: Call, tmp_path: Path) -> None:
    evil = "\x1b[31mevil\x9b2J[bold].en-de.tsv"
    answer = isogloss("prepare", evil, "--out", "store")
    assert answer.code == 2 and "\\x1b[31mevil\\x9b2J[bold].en-de.tsv" in answer.err
    Path(evil).write_text("".join(f"The house has the number {n}.\tDas Haus hat die Nummer {n}.\n" for n in range(9)))
    answer = isogloss("prepare", evil, "--out", "\x1b[1mstore", "--held-out", "0.2")
    assert answer.code == 0 and "[bold]" in answer.out
    for text in (answer.out, answer.err, isogloss("corpora", "show", "\x1b[1mstore").out):
        assert printable(text, layout=True) == text
    line = _warnings().format(logging.LogRecord("isogloss", logging.WARNING, "", 0, "%s at http://u:SECRET@h/", (evil,), None))
    assert printable(line) == line and line.endswith("[bold].en-de.tsv at http://***@h/")

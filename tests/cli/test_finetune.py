"""`isogloss finetune` as a person meets it: a table, JSON, and bad input with exit code 2."""

import json
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from isogloss.cli.app import main
from judged import write_judged


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_judged(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


QUICK = ("--batch", 16, "--learning-rate", "1e-3", "--device", "cpu", "--sts-epochs", 2, "--dev-checks", 2, "--max-tokens", 32)


def test_a_table_says_what_each_stage_gave(models: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "judged").mkdir()
    rows = (place / "nli.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    for number, some in enumerate((rows[:20], rows[20:])):
        (place / "judged" / f"{number}.tsv").write_text("".join(some), encoding="utf-8")
    files = ("--nli", "judged", "--sts", "sts.tsv", "--sts-dev", "dev.tsv")
    code, out, err = call(capsys, "finetune", models / "student", *files, *QUICK, "--out", "tuned")
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    nli, sts = (next(line for line in lines if line[:1] == [name]) for name in ("nli", "sts"))
    assert nli[1:3] == ["48", "3"] and sts[1:3] == ["40", "6"] and nli[4] == sts[3]
    assert "Spearman × 100 on the STS dev set" in out and "Model: tuned/model" in out
    assert "nli" in err and "sts" in err
    assert SentenceTransformer("tuned/model", device="cpu").encode("the cat runs home.").shape == (24,)
    code, again, _ = call(capsys, "finetune", models / "student", *files, *QUICK, "--out", "tuned", "--json")
    result = json.loads(again)
    assert code == 0 and [stage["steps_now"] for stage in result["training"].values()] == [0, 0]
    assert json.loads(Path("tuned/run.json").read_text())["data"]["nli"]["files"] == ["judged/0.tsv", "judged/1.tsv"]
    assert f"{100 * result['training']['sts']['dev']['dev_spearman']:.2f}" == sts[4]


def test_augmented_pairs_are_told(models: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--augment", "--neighbors", 1, "--cross-encoder", models / "teacher", "--search-by", models / "teacher")
    code, out, err = call(capsys, "finetune", models / "student", "--sts", "sts.tsv", *more, *QUICK, "--out", "tuned")
    assert code == 0, err
    assert "cross-encoder" in out and " labelled " in out and " near pair" in out and "loss" in out
    augmented = json.loads(Path("tuned/results.json").read_text())["augmented"]
    assert augmented["cross_encoder"] == str(models / "teacher") == augmented["searched_by"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to train on"),
        (("--sts", "nowhere.tsv"), "nowhere.tsv: no such file"),
        (("--sts", "bad.tsv"), "bad.tsv line 2: the score is '7'"),
        (("--nli", "sts.tsv"), "sts.tsv line"),
        (("--sts", "."), ".: is a folder with files of more than one split: bad.tsv, dev.tsv"),
        (("--nli", "nli.tsv", "--augment"), "augmenting labels more STS pairs"),
        (("--sts", "sts.tsv", "--batch", "0"), "--batch 0: training.batch_pairs = 0 is out of range"),
        (("--sts", "sts.tsv", "--device", "abacus"), "'abacus' is not known"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    models: Path, place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    (place / "bad.tsv").write_text("a\tb\t1\nc\td\t7\ne\tf\t2\n")
    code, out, err = call(capsys, "finetune", models / "student", *arguments, "--out", "tuned")
    assert code == 2 and not out and message in err and "\nhint: " in err and "Traceback" not in err
    assert not Path("tuned/model").exists()


def test_a_model_that_is_not_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "finetune", "./nothing", "--sts", "sts.tsv", "--device", "cpu")
    assert code == 2 and "no such folder" in err

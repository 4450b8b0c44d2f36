"""`isogloss evaluate --suite` as a person meets it: tables, JSON, Markdown, LaTeX, and what is said when data is missing."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import isogloss as ig
from isogloss.cli.app import main
from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.evaluation.space import read_means
from isogloss.models.encoder import SentenceEncoder
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray
from made_up_sets import retrieval_tables, write_sets


class Call:
    """Runs the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["evaluate", *map(str, arguments)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISOGLOSS_DATA", str(write_sets(tmp_path / "eval")))
    return Call(capsys)


def test_two_models_side_by_side(evaluate: Call, models: Path, tmp_path: Path) -> None:
    scanned = tmp_path / "scanned"
    shutil.copytree(models / "teacher", scanned)
    files = [tmp_path / "eval" / "sts2017" / f"STS.{one}.txt.gz" for one in ("en-en", "es-es", "ar-ar")]
    sets = [asdict(one) for one in LeakScanner(evaluation_sets([str(file) for file in files])).sets]
    training = {"leak_scan": {"sets": sets}, "corpora": {"TED2020": {}, "": {}}}
    (scanned / "isogloss_training.json").write_text(json.dumps(training))
    code, out, err = evaluate(scanned, models / "student", "--suite", "sts2017,tatoeba:deu", "--resamples", 300)
    assert code == 0, err
    assert "STS 2017, one language" in out and "en-ar" in out and "Avg." in out and "en → xx" in out
    assert f"leak scan of the training text of {scanned} (TED2020): scanned\n" in out
    assert f"leak scan of the training text of {scanned} (TED2020): not scanned\n" in out, "the other sets were not"
    assert f"leak scan of the training text of {models / 'student'}: not known" in out
    assert "differs from" in out and "300 paired resamples" in out


def test_json_and_cache_and_baseline(evaluate: Call, models: Path, tmp_path: Path) -> None:
    asked = (models / "teacher", models / "student", "--suite", "sts2017:en-en+ar-ar", "--resamples", 100)
    code, out, err = evaluate(*asked, "--json", "--cache", tmp_path / "c", "--baseline", models / "student")
    told = json.loads(out)
    assert code == 0 and told["baseline"] == str(models / "student") and told["suite"] == "sts2017:en-en+ar-ar"
    (table,) = told["tables"]
    assert [column["name"] for column in table["columns"]] == ["en-en", "ar-ar", "Avg."]
    first = table["columns"][0]["scores"][0]
    assert first["difference"]["interval"][0] <= first["difference"]["value"] <= first["difference"]["interval"][1]
    assert first["others"]["Pearson of dot"] and table["columns"][0]["rows"] == 120
    _, again, err = evaluate(*asked, "--json", "--cache", tmp_path / "c", "--baseline", models / "student")
    assert json.loads(again) == told and "reused from the cache" in err
    _, exact, _ = evaluate(*asked, "--json", "--cache", "")
    value = json.loads(exact)["tables"][0]["columns"][0]["scores"][0]["value"]
    assert value == pytest.approx(first["value"], abs=0.02) and not list((tmp_path / "cache").glob("**/*.npy"))


def test_forms_for_papers(evaluate: Call, models: Path) -> None:
    asked = (models / "teacher", "--suite", "bias:en-en+en-es+deu", "--resamples", 50)
    _, text, _ = evaluate(*asked, "--latex")
    assert r"\textbf{Expected Score} & \textbf{Actual Score} & \textbf{Difference}" in text and r"\bottomrule" in text
    _, text, _ = evaluate(*asked, "--markdown", "--mean-removal", "--means-out", "kept")
    assert set(read_means(Path("kept")).means) == {"en", "es", "de"}
    assert evaluate(*asked, "--means-out", "kept")[0] == 2
    assert "| Model | Expected Score | Actual Score | Difference |" in text and "− means" in text


def test_means_are_measured_exported_and_taken_off(
    evaluate: Call, models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The road that docs/evaluation.md shows: its Python and its command give the same vectors."""
    (tmp_path / "runs").mkdir()
    shutil.copytree(models / "teacher", tmp_path / "runs" / "quickstart")
    code, _, err = evaluate("runs/quickstart", "--suite", "tatoeba:deu", "--mean-removal", "--means-out", "means")
    assert code == 0, err
    docs = (Path(__file__).parent.parent.parent / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^isogloss embed .*--means.*$", docs, flags=re.MULTILINE)
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", docs, flags=re.DOTALL) if "read_means" in block]
    lines = ["Wo ist der Bahnhof?", "die Katze schläft"]
    Path("fragen.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(command.split()[1:])
    assert not caught.value.code, capsys.readouterr().err
    written = np.load("vectors.npy")
    ran: dict[str, object] = {}
    exec(compile(example, "docs/evaluation.md", "exec"), ran)
    assert np.allclose(np.asarray(ran["vectors"]), written[:1], atol=1e-6)
    plain = ig.embed("runs/quickstart", lines)
    kept = read_means("means")
    mean = kept.means["de"]
    assert kept.fingerprint == ig.load("runs/quickstart").fingerprint, "so that no other model is given them"
    left = plain - mean
    assert np.allclose(written, left / np.linalg.norm(left, axis=1, keepdims=True), atol=1e-5)
    assert np.abs(written - plain).max() > 0.01


def test_a_program_is_a_model_too(evaluate: Call, tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("import sys\nfor line in sys.stdin: print(len(line), line.count('e'), line.count('a') + 1)\n")
    code, out, err = evaluate(f"cmd:{sys.executable} {script}", "--suite", "tatoeba:deu", "--resamples", 0)
    assert code == 0, err
    assert "accuracy, both directions" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--baseline", "other"), "--baseline other: not among the models"),
        (("--baseline", "{teacher} − means"), "not among the models"),
        (("./gone",), "./gone: no such folder"),
        (("--json", "--latex"), "--json and --latex exclude each other"),
        (("--markdown", "--latex"), "--markdown and --latex exclude each other"),
        (("--cache", "{file}/cache"), "the embedding cache cannot be used: {file}/cache/vectors: cannot be written"),
        (("--suite", "stsb,sts2018"), "sts2018: no such suite"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_is_opened(
    evaluate: Call, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], message: str
) -> None:
    def never(*_arguments: object) -> None:
        raise AssertionError("a model was opened")

    monkeypatch.setattr("isogloss.evaluation.suites.open_encoder", never)
    (tmp_path / "file").write_text("")
    names = {"teacher": models / "teacher", "file": tmp_path / "file"}
    given = [one.format(**names) for one in asked]
    code, out, err = evaluate(models / "teacher", "--suite", "stsb", *given)
    assert code == 2 and not out and message.format(**names) in err


def test_a_pair_of_languages_in_either_order(evaluate: Call, models: Path) -> None:
    told = [json.loads(evaluate(models / "teacher", "--suite", f"sts2017:{one}", "--json")[1]) for one in ("en-ar", "ar-en")]
    assert told[0]["tables"] == told[1]["tables"]
    code, _, err = evaluate(models / "teacher", "--suite", "sts2017:en-xx")
    assert code == 2 and "sts2017 has no part en-xx" in err


def test_the_teacher_embeds_once_for_all_models(
    evaluate: Call, models: Path, tsv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    own = SentenceEncoder.encode

    def counted(self: SentenceEncoder, texts: Sequence[str], tell: OnProgress = silent, stage: str = "encode") -> FloatArray:
        stages.append(stage)
        return own(self, texts, tell, stage)

    monkeypatch.setattr(SentenceEncoder, "encode", counted)
    code, out, err = evaluate(models / "teacher", models / "student", "--teacher", models / "teacher", "--pairs", tsv)
    assert code == 0, err
    names = (models / "teacher", models / "student")
    assert stages == ["teacher", *(f"embedding, {name}" for name in names)] and "average" in out


def test_missing_data_and_wrong_names(evaluate: Call, models: Path) -> None:
    code, _, err = evaluate(models / "teacher", "--suite", "tatoeba-14")
    assert (
        code == 2
        and "tatoeba ara: not in" in err
        and "hint: git clone --depth 1 https://github.com/facebookresearch/LASER" in err
    )
    code, _, err = evaluate(models / "teacher", "--suite", "sts2018")
    assert code == 2 and "sts2018: no such suite" in err
    code, _, err = evaluate(models / "teacher", "--suite", "stsb", "--pairs", "x.tsv")
    assert code == 2 and "--pairs works only without --suite" in err
    code, _, err = evaluate(models / "teacher", "--latex")
    assert code == 2 and "--latex works only with --suite" in err
    code, _, err = evaluate(models / "teacher", "--resamples", 5)
    assert code == 2 and "--resamples works only with --suite" in err
    code, _, err = evaluate(models / "teacher", "--suite", "stsb", "--data", "nowhere")
    assert code == 2 and "nowhere: no such folder of test sets" in err


def test_documents_and_queries_of_ones_own(evaluate: Call, models: Path, tmp_path: Path) -> None:
    run, asked = tmp_path / "run", retrieval_tables(tmp_path / "asked")
    shutil.copytree(models / "teacher", run / "model")
    (run / "run.json").write_text(json.dumps({"recipe": {"teacher": {"model": str(models / "teacher")}}}))
    code, out, err = evaluate(run, "--suite", f"retrieval:{asked}", "--resamples", 100)
    assert code == 0, err
    assert "asked, teacher's index (40 documents in en)" in out and "kept recall@10" in out
    code, out, _ = evaluate(run, "--suite", f"retrieval:{asked}", "--json", "--resamples", 100)
    table = json.loads(out)["tables"][0]
    last = {column["name"]: column["scores"][0] for column in table["columns"]}
    assert last["teacher"]["further"]["kept recall@1"] == {"value": 1.0, "interval": [1.0, 1.0], "difference": None}
    assert last["en"]["value"] == last["teacher"]["value"], "the model is the teacher itself"
    for form in ("--markdown", "--latex"):
        code, out, _ = evaluate(run, "--suite", f"retrieval:{asked}", form, "--resamples", 0, "--languages", "de")
        assert code == 0 and "nDCG@10" in out and "ru" not in out.split()
    code, out, _ = evaluate(run, "--suite", f"retrieval:{asked}", "--teacher", "", "--resamples", 0)
    assert code == 0 and "own index" in out and "kept" not in out


def test_what_a_retrieval_suite_refuses(evaluate: Call, models: Path, tmp_path: Path) -> None:
    asked = retrieval_tables(tmp_path / "asked")
    teacher, student = models / "teacher", models / "student"
    for arguments, message in (
        ((teacher, "--suite", "retrieval:nowhere"), "nowhere: no such folder of documents and queries"),
        ((teacher, "--suite", f"retrieval:{tmp_path / 'eval'}"), "no documents and queries there"),
        ((teacher, "--suite", "tatoeba:deu", "--teacher", student), "--teacher works only with a retrieval suite"),
        ((teacher, "--suite", f"retrieval:{asked}", "--teacher", student), "have 16 dimensions, those of the teacher 24"),
        ((teacher, "--suite", f"retrieval:{asked}", "--languages", "sw"), "asked has no queries in sw"),
        ((teacher, "--suite", f"retrieval:{asked}", "--teacher", "./nothing"), "no such folder"),
    ):
        code, out, err = evaluate(*arguments)
        assert code == 2 and not out and message in err and "hint: " in err, err

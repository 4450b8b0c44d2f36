"""`isogloss export` as a person meets it: the table, JSON, what was refused, and mistakes."""

import json
from pathlib import Path

import pytest

from hub import running_hub
from isogloss.checksums import check_sums
from isogloss.cli.app import main
from isogloss.errors import IsoglossError
from isogloss.evaluation.suites import SuiteSettings, evaluate_suite
from isogloss.models.encoder import load
from isogloss.models.static import static_student
from made_up_sets import write_sets
from tiny import unigram


class Call:
    """Runs the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["export", *map(str, arguments)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def export(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    static_student(unigram(), 64).save_pretrained(tmp_path / "table")  # a graph of it is written in a moment
    return Call(capsys)


def test_onnx_files_and_their_measurements(export: Call, tsv: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    named = ("table", "--to", "onnx", "--pairs", tsv, "--teacher", "", "--precisions", "fp32,int8")
    code, out, err = export(*named)
    assert code == 0, err
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["file", "fp32", "int8"] and "points lost" in lines[0]
    assert "searching sources by their translations" in out and all(len(line) <= 80 for line in lines)
    assert "table-onnx" in err and (tmp_path / "table-onnx" / "onnx" / "model_qint8_avx512_vnni.onnx").is_file()
    code, out, _ = export(*named, "--min-cosine", 0.9999999, "--json")
    found = json.loads(out)
    assert code == 0 and [one["name"] for one in found["artifacts"]] == ["fp32"] and found["suite"] is None
    assert found["refused"][0]["name"] == "int8" and "min_cosine" in found["refused"][0]["reason"]
    assert found["artifacts"][0]["path"] == "onnx/model.onnx" and found["artifacts"][0]["cosine"] > 0.99999
    code, out, _ = export(*named, "--min-cosine", 0.9999999)
    assert code == 0 and "refused: int8 (mean cosine" in out
    assert not (tmp_path / "table-onnx" / "onnx" / "model_qint8_avx512_vnni.onnx").exists()


def test_mistakes_are_explained(export: Call, tmp_path: Path) -> None:
    code, _, err = export("table", "--to", "coreml")
    assert code == 2 and "'coreml' is not an export format" in err and "onnx" in err
    code, _, err = export("table", "--to", "onnx", "--precisions", "int4")
    assert code == 2 and "int4" in err and "Traceback" not in err
    code, _, err = export("nowhere", "--to", "onnx")
    assert code == 2 and "nowhere" in err and "Traceback" not in err
    assert [place.name for place in tmp_path.iterdir()] == ["table"]


def test_test_sets_are_measured_with_each_file(export: Call, tsv: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    training = {"leak_scan": {"sets": []}, "corpora": {"tiny": {}}}
    (tmp_path / "table" / "isogloss_training.json").write_text(json.dumps(training))
    data = write_sets(tmp_path / "eval")
    suites = "sts2017:en-en+es-es,tatoeba:deu"
    written = ("table", "--to", "onnx", "--pairs", tsv, "--teacher", "", "--precisions", "fp32,int8")
    named = (*written, "--suite", suites, "--data", data)
    code, out, err = export(*named)
    assert code == 0 and "test sets, int8" in err, err
    assert "STS 2017, one language" in out and "Tatoeba" in out and all(len(line) <= 80 for line in out.splitlines())
    for name in ("original", "fp32", "int8"):
        assert f"leak scan of the training text of {name} (tiny): not scanned" in " ".join(out.split())
    code, out, _ = export(*named, "--json")
    assert code == 0
    suite = json.loads(out)["suite"]
    folder = tmp_path / "table-onnx"
    assert json.loads((folder / "suite.json").read_text()).items() >= suite.items()
    check_sums(folder, lambda name: IsoglossError(name))
    assert [one["name"] for one in suite["models"]] == ["original", "fp32", "int8"] and suite["baseline"] == "original"
    assert [one.get("path") for one in suite["models"]] == [None, "onnx/model.onnx", "onnx/model_qint8_avx512_vnni.onnx"]
    assert suite["models"][0]["fingerprint"] == load("table", device="cpu").fingerprint
    files = [f"onnx:{folder / one['path']}" for one in suite["models"][1:]]
    by_name = evaluate_suite(["table", *files], suites, SuiteSettings(str(data)))
    for table, own in zip(suite["tables"], by_name.tables, strict=True):
        for column, cells in zip(table["columns"], own.columns, strict=True):
            assert [score["value"] for score in column["scores"]] == [cell.value for cell in cells.cells]
    values = [score["value"] for score in suite["tables"][0]["columns"][0]["scores"]]
    assert values[0] == pytest.approx(values[1], abs=1e-3) and values[2] != values[0]


def test_a_missing_test_set_is_said_before_the_export(export: Call, tmp_path: Path) -> None:
    sets = write_sets(tmp_path / "eval")
    for arguments, said in (
        (("--suite", "tatoeba:fra", "--data", sets), "tatoeba fra: not in"),
        (("--suite", "tatoebe", "--data", sets), "tatoebe: no such suite"),
        (("--data", sets), "--data works only with --suite"),
        (("--budget", "1MB", "--suite", "sts2017", "--data", sets), "--suite does not work with --budget"),
    ):
        code, out, err = export("table", "--to", "onnx", *arguments)
        assert code == 2 and said in err and "Traceback" not in err and not out
    assert {place.name for place in tmp_path.iterdir()} == {"table", "eval"}


def test_a_folder_is_measured_as_the_model_it_is(export: Call, tmp_path: Path) -> None:
    code, out, err = export("table", "--out", "copy", "--suite", "tatoeba:deu", "--data", write_sets(tmp_path / "eval"))
    assert code == 0 and "Tatoeba" in out, err
    assert [one["name"] for one in json.loads((tmp_path / "copy" / "suite.json").read_text())["models"]] == ["original"]


def test_a_folder_for_every_server(export: Call, tmp_path: Path) -> None:
    code, out, err = export("table", "--out", "copy")
    assert code == 0 and not out and "copy" in err and (tmp_path / "copy" / "modules.json").is_file()


def test_scores_in_the_card_and_the_upload(
    export: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"title": "Tatoeba", "columns": [{"name": "de", "measure": "accuracy", "rows": 2}]}
    table["columns"][0]["scores"] = [{"model": "table", "value": 0.5, "interval": [0.4, 0.6]}]  # type: ignore[index]
    own = load("table", device="cpu").fingerprint
    (tmp_path / "scores.json").write_text(json.dumps({"models": [{"name": "table", "fingerprint": own}], "tables": [table]}))
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        code, out, err = export("table", "--out", "copy", "--scores", "scores.json", "--push", "me/mine", "--private")
        assert code == 0 and f"uploaded: {hub.url}/me/mine/commit/" in err and "hf_secret" not in out + err
        assert {"modules.json", ".eval_results/isogloss.yaml", "README.md"} <= set(hub.files["me/mine"])
        assert b"| de | 50.0 | 40.0 to 60.0 |" in hub.files["me/mine"]["README.md"]
        code, _, err = export("table", "--out", "copy", "--push", "me/mine")
        assert code == 2 and "--add-to-repository" in err
        code, out, _ = export("table", "--out", "copy", "--push", "me/mine", "--add-to-repository", "--json")
        assert code == 0 and json.loads(out)["url"].startswith(hub.url)
    assert export("table", "--private")[0] == 2 and export("table", "--budget", "9MB", "--push", "me/mine")[0] == 2


def test_best_form_within_a_budget(export: Call, tsv: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    named = (
        "table",
        "--pairs",
        tsv,
        "--teacher",
        "",
        "--precisions",
        "fp32,int8",
        "--trims",
        "off,corpus",
        "--dimensions",
        "16",
    )
    code, out, err = export(*named, "--budget", "1MB")
    assert code == 0, err
    table = out[: out.index("no other is as small")]
    assert all(len(line) <= 80 for line in table.splitlines()) and table.count("corpus (") == 4 == table.count("whole (")
    assert "the original, run by torch" in table and table.count("←") == 1
    assert "embeddings are cut" not in out  # without a teacher there is no index
    model = tmp_path / "table-budget" / "model"
    assert (model / "onnx" / "model.onnx").is_file() and (tmp_path / "table-budget" / "frontier.html").is_file()
    code, out, err = export(*named, "--budget", "1MB", "--json")
    found = json.loads(out)
    assert code == 0 and found["model"] == "table-budget/model" and len(found["tried"]) == 8
    assert found["megabytes"] <= found["budget_megabytes"] == 1.0 and "embedding, no layers" not in err  # measured once
    before = (model / "onnx" / "model.onnx").read_bytes()
    code, _, err = export(*named, "--budget", "2KB")
    assert code == 2 and "nothing fits into 0.0 MB" in err and "--to static" in err
    assert (model / "onnx" / "model.onnx").read_bytes() == before


def test_an_export_is_uploaded_as_it_is(export: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    assert export("table", "--to", "onnx", "--out", "graphs", "--precisions", "fp32", "--min-cosine", "0")[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "graphs").rglob("*") if path.is_file()}
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        code, _, err = export("graphs", "--push", "me/graphs")
        assert code == 0 and f"uploaded: {hub.url}/me/graphs/commit/" in err, err
        assert {"onnx/model.onnx", "README.md", "export.json"} <= set(hub.files["me/graphs"])
        assert b'SentenceTransformer("me/graphs", backend="onnx")' in hub.files["me/graphs"]["README.md"]
        (tmp_path / "graphs" / "tokenizer.json").write_text("{}")
        code, _, err = export("graphs", "--push", "me/others")
        assert code == 2 and "tokenizer.json is damaged" in err and "me/others" not in hub.files
    (tmp_path / "graphs" / "tokenizer.json").write_bytes(before["tokenizer.json"])
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "graphs").rglob("*") if path.is_file()}


def test_mistakes_about_budgets_are_explained(export: Call, tmp_path: Path) -> None:
    for arguments, said in (
        (("--budget", "60"), "is not a size"),
        (("--budget", "60MB", "--to", "static"), "--budget writes ONNX folders"),
        (("--budget", "60MB", "--layers", "six"), "is not a list of whole numbers"),
        (("--budget", "60MB", "--trims", "words"), "words"),
    ):
        code, out, err = export("table", *arguments)
        assert code == 2 and said in err and "Traceback" not in err and not out
    assert [place.name for place in tmp_path.iterdir()] == ["table"]

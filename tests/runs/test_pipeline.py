"""Whole runs on tiny models: results, records, repetition, and kill -9 at several stages."""

import json
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.corpora.store import open_store
from isogloss.errors import DataError, IsoglossError
from isogloss.evaluation.alignment import evaluate
from isogloss.evaluation.leak_report import scan_of
from isogloss.models.encoder import load
from isogloss.models.loading import choose_device
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from killed import ended, run_until, started
from tiny import OFTEN, SCANNED, tiny_recipe


def test_a_run_leaves_a_model_results_and_a_record(models: Path, tsv: Path, tmp_path: Path) -> None:
    steps: list[Step] = []
    result = run(tiny_recipe(models, tsv, tmp_path / "run"), steps.append)
    assert [report.model for report in result.reports] == ["untouched", "bridge", "distill"]
    record = json.loads((result.folder / "run.json").read_text())
    assert record["status"] == "finished"
    assert set(record["hashes"]) == {"pairs", "teacher", "student", "weights"}
    assert record["recipe"]["training"]["epochs"] == 3 and record["versions"]["torch"] and record["hardware"]["cores"]
    assert {"read", "models", "vectors", "bridge", "distill", "measure", "save"} == set(record["seconds"])
    written = json.loads((result.folder / "results.json").read_text())
    assert written["stages"]["distill"]["languages"]["ru"]["queries"] == 8
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert "dev_retrieval" in lines[0] and lines[0]["step"] == 0
    losses = [line["loss"] for line in lines[1:]]
    assert losses and all(np.isfinite(losses))
    assert {step.stage for step in steps} >= {"pairs", "models", "teacher", "lower layers", "distill"}
    assert "| average |" in (result.model / "README.md").read_text()
    assert not list((result.folder / "work").glob("activations-*")), "activations are not kept after a finished run"


def test_the_reported_scores_are_those_of_the_saved_model(models: Path, tsv: Path, tmp_path: Path) -> None:
    result = run(tiny_recipe(models, tsv, tmp_path / "run"))
    saved = evaluate(load(str(result.folder)), load(str(models / "teacher")), open_store(result.folder / "pairs").bitext())
    for reported, measured in zip(result.reports[-1].scores, saved.scores, strict=True):
        assert reported.teacher_index == measured.teacher_index and reported.to_source == measured.to_source
        assert reported.cosine == pytest.approx(measured.cosine, abs=1e-3)
    plain = SentenceTransformer(str(result.model)).encode(["кошка спит ночью."])
    assert np.allclose(plain, load(str(result.folder)).encode(["кошка спит ночью."]), atol=1e-5)


def test_the_same_recipe_gives_the_same_weights_and_a_second_run_reuses(models: Path, tsv: Path, tmp_path: Path) -> None:
    hashes, steps = [], list[list[Step]]()
    for name in ("a", "b", "a"):
        steps.append([])
        run(tiny_recipe(models, tsv, tmp_path / name), steps[-1].append)
        hashes.append(json.loads((tmp_path / name / "run.json").read_text())["hashes"]["weights"])
    assert hashes[0] == hashes[1] == hashes[2]
    reused = {step.stage for step in steps[2] if "reused" in step.note}
    assert reused == {"pairs", "tokens", "teacher", "teacher, held out", "untouched student", "distill", "trained student"}
    assert "lower layers" not in {step.stage for step in steps[2]}, "nothing is computed again"


def test_killed_at_four_stages_the_run_continues_to_the_same_weights(models: Path, tsv: Path, tmp_path: Path) -> None:
    def start(folder: str, stage: str, count: int) -> int:
        recipe = tmp_path / f"{folder}.toml"
        recipe.write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / folder, OFTEN)), encoding="utf-8")
        return ended(started(run_until, recipe, stage, count))

    killed = -9
    assert start("cut", "teacher", 1) == killed
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["status"] == "running"
    assert start("cut", "lower layers", 1) == killed
    assert start("cut", "distill", 7) == killed
    assert list((tmp_path / "cut" / "work").glob("checkpoints-*/step-00000005.pt"))
    (tmp_path / "cut" / "work" / ".half.npy.partial-dead").write_bytes(b"\x93NUMPY half")
    assert start("cut", "distilled student", 1) == killed
    assert not (tmp_path / "cut" / "model").exists()
    assert start("cut", "", 0) == 0
    assert start("whole", "", 0) == 0
    cut, whole = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("cut", "whole"))
    assert cut["status"] == whole["status"] == "finished"
    assert cut["hashes"] == whole["hashes"]
    assert not list((tmp_path / "cut" / "work").glob(".*partial*"))
    logged = [json.loads(line)["step"] for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert logged == sorted(set(logged)), "no step is logged twice"


def test_a_folder_in_use_is_refused(models: Path, tsv: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with FileLock(folder / ".lock"), pytest.raises(IsoglossError, match="another run is using this folder"):
        run(tiny_recipe(models, tsv, folder))


def test_bridge_only_and_no_bridge(models: Path, tsv: Path, tmp_path: Path) -> None:
    only = run(tiny_recipe(models, tsv, tmp_path / "only", "training.epochs=0"))
    assert [report.model for report in only.reports] == ["untouched", "bridge"]
    none = run(
        tiny_recipe(
            models,
            tsv,
            tmp_path / "none",
            f"student.model={models / 'teacher'}",
            "bridge.enabled=false",
            "training.train_layers=0",
        )
    )
    assert [report.model for report in none.reports] == ["untouched", "distill"]


def test_source_text_joins_the_training_pairs(models: Path, tsv: Path, tmp_path: Path) -> None:
    text = tmp_path / "more.txt"
    text.write_text("the cat buys water.\na child reads a song.\n", encoding="utf-8")
    result = run(tiny_recipe(models, tsv, tmp_path / "run", f"pairs.source_text={text}"))
    assert result.details["pairs"] == {"train": 66, "test": 16, "source_only": 2}


def test_errors_leave_a_finished_model_alone(models: Path, tsv: Path, tmp_path: Path) -> None:
    result = run(tiny_recipe(models, tsv, tmp_path / "run"))
    before = (result.model / "model.safetensors").read_bytes()
    with pytest.raises(DataError):
        run(tiny_recipe(models, tmp_path / "gone.tsv", tmp_path / "run"), replace=True)
    assert (result.model / "model.safetensors").read_bytes() == before


def test_broken_students_and_runaway_training_save_nothing(models: Path, tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(IsoglossError, match="the same embedding"):
        run(tiny_recipe(models, tsv, tmp_path / "short", "student.max_tokens=2", "training.epochs=0"))
    wild = (
        "training.learning_rate=1e30",
        "training.warmup=0.0",
        "training.epochs=1",
        "training.batch_pairs=1000",
        "training.dev_pairs=0",
    )
    with pytest.raises(IsoglossError, match="not finite"):
        run(tiny_recipe(models, tsv, tmp_path / "wild", *wild))
    assert not (tmp_path / "short" / "model").exists() and not (tmp_path / "wild" / "model").exists()


def test_what_is_in_the_way_is_said_before_the_work(models: Path, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "thesis.txt").write_text("years of work")
    with pytest.raises(IsoglossError, match="contains files that are not a model"):
        run(tiny_recipe(models, tsv, tmp_path / "run"))
    assert not (tmp_path / "run" / "work").exists()


def test_a_run_takes_a_prepared_store_as_it_is(models: Path, tsv: Path, tmp_path: Path) -> None:
    done = run(tiny_recipe(models, tsv, tmp_path / "done"))
    before = (done.folder / "pairs" / "manifest.json").read_bytes()
    again = run(tiny_recipe(models, done.folder / "pairs", tmp_path / "done", "languages=de"), replace=True)
    assert [score.language for score in again.reports[-1].scores] == ["de"]
    assert (done.folder / "pairs" / "manifest.json").read_bytes() == before
    other = run(tiny_recipe(models, done.folder / "pairs", tmp_path / "other"))
    assert other.details["store"] == str(done.folder / "pairs") and not (tmp_path / "other" / "pairs").exists()


def test_the_teacher_embeds_only_the_pairs_under_a_limit(models: Path, tsv: Path, tmp_path: Path) -> None:
    """All 32 training sentences without one; ten with one, and the same ten when a killed run starts again."""
    limited, hashes = "pairs.max_per_language=10", []
    for folder, limits, sentences in (("all", (), 32), ("cut", (limited,), 10), ("whole", (limited,), 10)):
        recipe = tmp_path / f"{folder}.toml"
        recipe.write_text(recipes.dump(tiny_recipe(models, tsv, tmp_path / folder, OFTEN, *limits)), encoding="utf-8")
        if folder == "cut":
            assert ended(started(run_until, recipe, "teacher", 1)) == -9
        steps: list[Step] = []
        result = run(recipes.load(recipe), steps.append)
        assert {step.total for step in steps if step.stage == "teacher"} == {sentences}
        hashes.append(json.loads((result.folder / "run.json").read_text())["hashes"])
    assert hashes[0] != hashes[1] == hashes[2]
    assert "| pairs | 20 | not stated |" in (result.model / "README.md").read_text()
    assert result.reports[-1].scores[0].queries == 8, "all held-out pairs are measured"


def test_a_model_carries_what_it_was_trained_on_and_scanned_for(models: Path, tsv: Path, tmp_path: Path) -> None:
    done = run(tiny_recipe(models, tsv, tmp_path / "done"))
    for place in (done.folder, done.model):
        scan = scan_of(place)
        assert scan is not None and tuple(scan.names) == SCANNED
    carried = json.loads((done.model / "isogloss_training.json").read_text())
    assert carried["rows_in"] == 80 and set(carried["languages"]) == {"de", "ru"}
    assert scan_of(models / "teacher") is None


def test_devices() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in {"cpu", "cuda", "mps"}
    with pytest.raises(IsoglossError, match="torch finds none here"):
        choose_device("abacus")


def test_nothing_held_out_is_said_before_anything_is_computed(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "en-de.tsv"
    path.write_text("".join(f"the cat {n}.\tdie Katze {n}.\n" for n in range(9)), encoding="utf-8")
    steps: list[Step] = []
    with pytest.raises(DataError, match="no held-out pairs"):
        run(tiny_recipe(models, path, tmp_path / "run", "pairs.held_out=0"), steps.append)
    assert {step.stage for step in steps} == {"pairs"}


def test_fresh_forgets_unfinished_work(models: Path, tsv: Path, tmp_path: Path) -> None:
    for fresh in (False, True):
        steps: list[Step] = []
        run(tiny_recipe(models, tsv, tmp_path / "run"), steps.append, fresh)
    assert "lower layers" in {step.stage for step in steps}


def test_a_run_that_training_made_worse_says_so(
    models: Path, tsv: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wild = ["training.learning_rate=0.5", "training.warmup=0.0", "training.dev_pairs=0", "training.train_layers=0"]
    wild += ["losses.mse=0", "losses.ranking=1", "training.epochs=6"]
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *wild))
    assert result.training is not None
    bridge, distilled = (report.average().cosine for report in result.reports[1:])
    said = result.training.setback
    shown = f"cosine to the teacher {distilled:.2f} (was {bridge:.2f}) on average"
    assert said.startswith("on the held-out pairs the model is worse than the bridge alone: ") and shown in said
    assert said in caplog.messages and "no loss keeps it near the teacher" in said
    results, record = (json.loads((result.folder / name).read_text()) for name in ("results.json", "run.json"))
    assert results["training"]["distill"]["setback"] == said in record["warnings"]
    lost = {(one["stage"], one["language"]): one for one in results["regressions"] if one["score"] == "cosine"}
    average, german = lost["the bridge alone", "average"], lost["the bridge alone", "de"]
    assert average["clear"] and average["before"] == round(bridge or 0, 4) and average["after"] == round(distilled or 0, 4)
    assert german["before"] == results["stages"]["bridge"]["languages"]["de"]["cosine"]
    card = (result.model / "README.md").read_text()
    assert f"| average | cosine to the teacher | the bridge alone | {bridge:.2f} | {distilled:.2f} |" in card

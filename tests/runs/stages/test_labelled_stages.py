"""NLI, then STS: better on the dev set, loadable anywhere, and the same after an interruption."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.corpora.reading.labelled import read_sts
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.runs.presets import finetune_recipe
from isogloss.runs.run import RunResult
from isogloss.runs.stages.data import shared_rows
from isogloss.storage import read_json, weights_hash
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.training.train import TaskSettings
from judged import rated, write_judged

SPEARMAN = "dev_spearman"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    write_judged(folder)
    return folder


def recipe_for(models: Path, data: Path, out: Path, **more: Any) -> Recipe:  # noqa: ANN401
    training = {"batch_pairs": 8, "learning_rate": 2e-3, "dev_checks": 4} | more.pop("training", {})
    given: dict[str, Any] = {
        "nli": [str(data / "nli.tsv")],
        "sts": [str(data / "sts.tsv")],
        "sts_dev": [str(data / "dev.tsv")],
        "sts_epochs": 2,
        "student": {"max_tokens": 32},
        "device": "cpu",
    }
    return recipes.parse(finetune_recipe(str(models / "student"), out, training=training, **(given | more)), (), "test")


@pytest.fixture(scope="module")
def done(models: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run(recipe_for(models, data, tmp_path_factory.mktemp("runs") / "whole", augment={"neighbors": 2}))


def dev_score(model: Path, data: Path) -> float:
    pairs = read_sts([data / "dev.tsv"])
    plain = SentenceTransformer(str(model), device="cpu")
    u, v = (plain.encode(side, normalize_embeddings=True) for side in (pairs.first, pairs.second))
    return float(spearmanr(np.round((u * v).sum(1), 5), pairs.gold).statistic)


def spearman_of(result: RunResult) -> list[tuple[float | None, float | None]]:
    return [(stage.summary.dev_before.get(SPEARMAN), stage.summary.dev.get(SPEARMAN)) for stage in result.stages]


def test_every_stage_is_trained_and_the_dev_score_rises(done: RunResult, data: Path, models: Path) -> None:
    assert [stage.name for stage in done.stages] == ["nli", "sts cross-encoder", "sts"]
    nli, cross, sts = (sum(stage.examples.values()) for stage in done.stages)
    assert nli == 48 and cross == 80 and sts == 40 + done.details["augmented"]["pairs"] > 50
    (before, between), _, (same, after) = spearman_of(done)
    assert before == pytest.approx(dev_score(models / "student", data), abs=2e-3)
    assert same == between and before is not None and after is not None and after > before + 0.1
    assert after == pytest.approx(dev_score(done.model, data), abs=2e-3)


def test_the_cross_encoder_is_measured_and_a_poor_one_is_reported(
    done: RunResult, models: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = recipe_for(models, data, tmp_path / "run", nli=(), augment={"neighbors": 2, "cross_epochs": 3}, sts_epochs=1)
    result = run(recipe)
    rated_pairs, held = read_sts([data / "sts.tsv"]), read_sts([data / "dev.tsv"])
    alone = CrossEncoder.open(recipe.student.model, 2 * recipe.student.max_tokens, "cpu", recipe.seed)
    settings = TaskSettings(epochs=3, batch_pairs=8, learning_rate=2e-3, dev_checks=4, seed=recipe.seed, dropout=True)
    alone.train(rated_pairs.first, rated_pairs.second, rated_pairs.gold, settings)
    reached = float(spearmanr(alone.score(held.first, held.second), held.gold).statistic)
    assert result.details["augmented"][SPEARMAN] == pytest.approx(reached, abs=1e-6)
    cross, _ = result.stages
    assert cross.summary.steps == 3 * -(-80 // 8)
    before = spearman_of(result)[1][0]
    assert before is not None and ("raise cross_epochs" in caplog.text) == (reached <= before)


def test_the_record_says_how_it_came_about(done: RunResult, data: Path) -> None:
    record = read_json(done.folder / "run.json")
    assert record["status"] == "finished" and record["recipe"]["seed"] == 17
    assert [stage["task"] for stage in record["recipe"]["stage"]] == ["nli", "sts"]
    assert record["data"]["nli"]["rows"] == 48 and record["data"]["sts"]["files"] == [str(data / "sts.tsv")]
    assert record["hashes"]["weights"] == weights_hash(done.model) and record["versions"]["torch"]
    assert set(record["seconds"]) >= {"read", "models", "nli", "sts", "save"}
    assert read_json(done.folder / "results.json") == json.loads(json.dumps(done.as_dict()))
    assert "48 rows of nli" in (done.model / "README.md").read_text()
    lines = [json.loads(line) for line in (done.folder / "metrics.jsonl").read_text().splitlines()]
    for stage in done.stages:
        steps = [line["step"] for line in lines if line["stage"] == stage.name]
        assert steps == sorted(set(steps)) and steps[-1] == stage.summary.steps


class Stop(Exception):
    """A kill, from the progress callback."""


@pytest.mark.parametrize(("stage", "step"), [("nli", 2), ("sts cross-encoder", 10), ("sts", 10)])
def test_stopped_in_any_stage_it_continues_to_the_same_weights(
    done: RunResult, models: Path, data: Path, tmp_path: Path, stage: str, step: int
) -> None:
    recipe = recipe_for(models, data, tmp_path / "run", augment={"neighbors": 2}, training={"checkpoint_seconds": 0.0})

    def kill(progress: Step) -> None:
        if progress.stage == stage and progress.values.get("step", 0) >= step:
            raise Stop

    with pytest.raises(Stop):
        run(recipe, kill)
    assert read_json(tmp_path / "run" / "run.json")["status"] == "failed" and not (tmp_path / "run" / "model").exists()
    result = run(recipe)
    steps_now = {one.name: one.summary.steps_now for one in result.stages}
    assert 0 < steps_now[stage] < next(one for one in done.stages if one.name == stage).summary.steps
    assert stage == "nli" or steps_now["nli"] == 0
    assert weights_hash(result.model) == weights_hash(done.model) and spearman_of(result) == spearman_of(done)


def test_a_finished_run_is_not_trained_again(done: RunResult, models: Path, data: Path) -> None:
    before = weights_hash(done.model)
    again = run(recipe_for(models, data, done.folder, augment={"neighbors": 2}))
    assert all(stage.summary.steps_now == 0 for stage in again.stages) and weights_hash(again.model) == before


def test_sts_alone_without_a_dev_set_keeps_the_last_weights(models: Path, data: Path, tmp_path: Path) -> None:
    def trained(name: str, **more: Any) -> RunResult:  # noqa: ANN401
        return run(recipe_for(models, data, tmp_path / name, nli=(), sts_dev=(), sts_epochs=1, **more))

    (stage,) = trained("sts").stages
    assert stage.summary.dev == {} and stage.summary.best_step == stage.summary.steps == 5
    assert trained("other", seed=18).stages[0].summary.loss != stage.summary.loss
    assert trained("shorter", training={"steps": 2}).stages[0].summary.steps == 2


def test_a_stage_without_a_gain_leaves_the_model_as_it_was(
    models: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = recipe_for(models, data, tmp_path / "run", nli=(), sts=[str(data / "dev.tsv")], training={"learning_rate": 0.0})
    result = run(recipe)
    (before, after) = spearman_of(result)[0]
    assert result.stages[0].summary.best_step == 0 and after == before
    assert "no step of the training did better" in result.stages[0].summary.setback
    assert "30 of the 30 dev rows share a sentence with training" in caplog.text
    assert read_json(result.folder / "run.json")["data"]["sts_dev"]["shared_with_training"] == 30


def test_shared_rows_are_counted_whatever_their_case() -> None:
    held, trained = rated(0, 3), rated(0, 1)
    trained.first[0], trained.second[0] = f" {held.second[2].upper()}", "nothing like it"
    wanted = sum(held.second[2] in pair for pair in zip(held.first, held.second, strict=True))
    assert shared_rows(held, [trained]) == wanted >= 1 and shared_rows(held, []) == 0


def test_what_cannot_be_run_is_refused(models: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing to train on"):
        finetune_recipe("x", "out")
    with pytest.raises(RecipeError, match="augmenting"):
        finetune_recipe("x", "out", nli=["y"], augment={})
    with pytest.raises(RecipeError, match="neighbors"):
        recipe_for(models, data, tmp_path / "run", augment={"neighbors": 0})
    with pytest.raises(IsoglossError, match="which is read and must not change"):
        run(recipe_for(models, data, models / "student" / "out"))
    with pytest.raises(DataError, match="missing"):
        run(recipe_for(models, data, tmp_path / "run", sts=["missing.tsv"]))
    (tmp_path / "taken" / "model").mkdir(parents=True)
    (tmp_path / "taken" / "model" / "precious.txt").write_text("mine")
    with pytest.raises(IsoglossError, match="not a model"):
        run(recipe_for(models, data, tmp_path / "taken"))
    assert (tmp_path / "taken" / "model" / "precious.txt").read_text() == "mine"


def test_other_settings_leave_no_work_of_the_earlier_ones(models: Path, data: Path, tmp_path: Path) -> None:
    seen = []
    for seed in (1, 2, 2):
        run(recipe_for(models, data, tmp_path / "run", nli=(), sts_epochs=1, seed=seed), replace=True)
        seen.append({path.name for path in (tmp_path / "run" / "work").glob("checkpoints-*")})
    assert [len(names) for names in seen] == [1, 1, 1] and seen[0] != seen[1] == seen[2]

"""From an encoder to a sentence encoder: better on the dev set, loadable anywhere, and the same after a kill."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from isogloss.corpora.reading.labelled import read_sts
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.progress import Step
from isogloss.runs.finetune_settings import FinetuneSettings
from isogloss.runs.finetuning import FinetuneResult, finetune, shared_rows
from isogloss.storage import read_json, weights_hash
from isogloss.training.cross_encoder import CrossEncoder
from judged import rated, write_judged


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    write_judged(folder)
    return folder


def asked(models: Path, data: Path, out: Path, **more: object) -> FinetuneSettings:
    told = {
        "model": str(models / "student"),
        "nli": (str(data / "nli.tsv"),),
        "sts": (str(data / "sts.tsv"),),
        "sts_dev": (str(data / "dev.tsv"),),
        "out": str(out),
        "sts_epochs": 2,
        "batch": 8,
        "learning_rate": 2e-3,
        "max_tokens": 32,
        "dev_checks": 4,
        "device": "cpu",
    }
    return FinetuneSettings(**{**told, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def done(models: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> FinetuneResult:
    return finetune(asked(models, data, tmp_path_factory.mktemp("runs") / "whole", augment=True, neighbours=2))


def dev_score(model: Path, data: Path) -> float:
    pairs = read_sts([data / "dev.tsv"])
    plain = SentenceTransformer(str(model), device="cpu")
    u, v = (plain.encode(side, normalize_embeddings=True) for side in (pairs.first, pairs.second))
    return float(spearmanr(np.round((u * v).sum(1), 5), pairs.gold).statistic)


def test_every_stage_is_trained_and_the_dev_score_rises(done: FinetuneResult, data: Path, models: Path) -> None:
    assert [stage.name for stage in done.stages] == ["NLI", "cross-encoder", "STS"]
    nli, cross, sts = done.stages
    assert nli.examples == 48 and cross.examples == 80
    assert sts.examples == 40 + done.details["data"]["augmented"]["pairs"] > 50
    assert nli.before == pytest.approx(dev_score(models / "student", data), abs=2e-3)
    assert sts.before == nli.after and sts.after is not None and nli.before is not None
    assert sts.after > nli.before + 0.1
    assert sts.after == pytest.approx(dev_score(done.model, data), abs=2e-3)


def test_the_cross_encoder_is_measured_and_a_poor_one_is_said(
    done: FinetuneResult, models: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = asked(models, data, tmp_path / "run", nli=(), augment=True, neighbours=2, sts_epochs=1, cross_epochs=3)
    cross, sts = finetune(settings).stages
    rated, held = read_sts([data / "sts.tsv"]), read_sts([data / "dev.tsv"])
    alone = CrossEncoder.open(settings.model, 2 * settings.max_tokens, "cpu", settings.seed)
    alone.train(rated.first, rated.second, rated.gold, settings.training(3))
    reached = float(spearmanr(alone.score(held.first, held.second), held.gold).statistic)
    assert cross.after == pytest.approx(reached, abs=1e-6)
    assert cross.training.steps == 3 * -(-cross.examples // settings.batch)
    assert sts.before is not None
    assert ("give it --cross-epochs" in caplog.text) == (reached <= sts.before)
    assert done.details["data"]["augmented"]["dev_spearman"] == done.stages[1].after


def test_what_is_written_says_how_it_came_about(done: FinetuneResult, data: Path) -> None:
    record = read_json(done.folder / "run.json")
    assert record["status"] == "finished" and record["finetuning"]["seed"] == 17
    assert record["data"]["nli"]["pairs"] == 48 and record["data"]["sts"]["files"] == [str(data / "sts.tsv")]
    assert record["hashes"]["weights"] == weights_hash(done.model) and record["versions"]["torch"]
    assert read_json(done.folder / "results.json") == json.loads(json.dumps(done.as_dict()))
    card = (done.model / "README.md").read_text()
    assert "48 NLI pairs, then on 40 rated STS pairs" in card and f"{100 * (done.stages[-1].after or 0):.2f}" in card
    for name in ("nli", "sts", "cross-encoder"):
        lines = [json.loads(line) for line in (done.folder / f"metrics-{name}.jsonl").read_text().splitlines()]
        assert lines[-1]["step"] == next(stage for stage in done.stages if stage.name.lower() == name).training.steps


class Stop(Exception):
    """A kill, from the progress callback."""


@pytest.mark.parametrize(("stage", "step"), [("NLI", 2), ("cross-encoder", 10), ("STS", 10)])
def test_stopped_in_any_stage_it_goes_on_to_the_same_weights(
    done: FinetuneResult, models: Path, data: Path, tmp_path: Path, stage: str, step: int
) -> None:
    settings = asked(models, data, tmp_path / "run", augment=True, neighbours=2, checkpoint_seconds=0.0)

    def kill(one: Step) -> None:
        if one.stage == stage and one.values.get("step", 0) >= step:
            raise Stop

    with pytest.raises(Stop):
        finetune(settings, kill)
    assert read_json(tmp_path / "run" / "run.json")["status"] == "failed" and not (tmp_path / "run" / "model").exists()
    result = finetune(settings)
    now = {one.name: one.training.steps_now for one in result.stages}
    assert 0 < now[stage] < next(one for one in done.stages if one.name == stage).training.steps
    assert stage == "NLI" or now["NLI"] == 0
    assert weights_hash(result.model) == weights_hash(done.model)
    assert [(one.before, one.after) for one in result.stages] == [(one.before, one.after) for one in done.stages]


def test_a_finished_run_is_not_trained_again_unless_fresh(done: FinetuneResult, models: Path, data: Path) -> None:
    settings = asked(models, data, done.folder, augment=True, neighbours=2)
    before = weights_hash(done.model)
    again = finetune(settings)
    assert all(stage.training.steps_now == 0 for stage in again.stages) and weights_hash(again.model) == before


def test_sts_alone_without_a_dev_set_keeps_the_last_weights(models: Path, data: Path, tmp_path: Path) -> None:
    settings = FinetuneSettings(
        model=str(models / "student"), sts=(str(data / "sts.tsv"),), out=str(tmp_path / "sts"), device="cpu", sts_epochs=1
    )
    result = finetune(settings)
    (stage,) = result.stages
    assert stage.before is None and stage.after is None and stage.training.best_step == stage.training.steps == 3
    assert (
        finetune(dataclasses.replace(settings, out=str(tmp_path / "other"), seed=18)).stages[0].training.loss
        != stage.training.loss
    )
    shorter = finetune(dataclasses.replace(settings, out=str(tmp_path / "shorter"), sts_epochs=4, steps=2))
    assert [one.training.steps for one in shorter.stages] == [2]


def test_a_stage_without_a_gain_leaves_the_model_as_it_was(
    models: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dev = str(data / "dev.tsv")
    result = finetune(asked(models, data, tmp_path / "run", nli=(), sts=(dev,), learning_rate=0.0))
    (stage,) = result.stages
    assert stage.training.best_step == 0 and stage.after == stage.before
    assert "no step did better on the dev set" in caplog.text
    assert "30 of the 30 dev rows share a sentence with training" in caplog.text
    assert result.details["data"]["sts_dev"]["shared_with_training"] == 30


def test_shared_rows_are_counted_whatever_their_case() -> None:
    held, trained = rated(0, 3), rated(0, 1)
    trained.first[0], trained.second[0] = f" {held.second[2].upper()}", "nothing like it"
    wanted = sum(held.second[2] in pair for pair in zip(held.first, held.second, strict=True))
    assert shared_rows(held, [trained]) == wanted >= 1 and shared_rows(held, []) == 0


def test_what_cannot_be_meant_is_refused(models: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing to train on"):
        FinetuneSettings(model="x")
    with pytest.raises(RecipeError, match="--augment"):
        FinetuneSettings(model="x", nli=("y",), augment=True)
    with pytest.raises(RecipeError, match="--search-by"):
        FinetuneSettings(model="x", sts=("y",), search_by="z")
    with pytest.raises(RecipeError, match="--cross-epochs"):
        FinetuneSettings(model="x", sts=("y",), cross_epochs=2)
    with pytest.raises(RecipeError, match="neighbours"):
        FinetuneSettings(model="x", sts=("y",), augment=True, neighbours=0)
    inside = asked(models, data, models / "student" / "out")
    with pytest.raises(IsoglossError, match="never changed"):
        finetune(inside)
    with pytest.raises(DataError, match="missing"):
        finetune(asked(models, data, tmp_path / "run", sts=("missing.tsv",)))
    (tmp_path / "taken" / "model").mkdir(parents=True)
    (tmp_path / "taken" / "model" / "precious.txt").write_text("mine")
    with pytest.raises(IsoglossError, match="contains files that are not a model"):
        finetune(asked(models, data, tmp_path / "taken"))
    assert (tmp_path / "taken" / "model" / "precious.txt").read_text() == "mine"


def test_other_settings_leave_no_work_of_the_earlier_ones(models: Path, data: Path, tmp_path: Path) -> None:
    seen = []
    for seed in (1, 2, 2):
        finetune(asked(models, data, tmp_path / "run", nli=(), sts_epochs=1, seed=seed), replace=True)
        seen.append({path.name for path in (tmp_path / "run" / "work").glob("checkpoints-*")})
    assert [len(one) for one in seen] == [1, 1, 1] and seen[0] != seen[1] == seen[2]

"""Recipes of several stages: order, starting points, averages, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.errors import IsoglossError, RecipeError
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.runs.run import RunResult
from isogloss.storage import weights_hash
from judged import write_judged

TRAINING = {"epochs": 2, "batch_pairs": 16, "learning_rate": 2e-3, "dev_pairs": 0}


def recipe_for(models: Path, tsv: Path, out: Path, stages: list[dict[str, Any]], **more: Any) -> Recipe:  # noqa: ANN401
    data = {
        "device": "cpu",
        "pairs": {"files": [str(tsv)]},
        "teacher": {"model": str(models / "teacher")},
        "student": {"model": str(models / "student"), "max_tokens": 32},
        "training": TRAINING,
        "output": {"folder": str(out), "cache": str(out.parent / "cache")},
        "stage": stages,
    }
    return recipes.parse(data | more, (), "test")


def tensors(result: RunResult) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in sorted(result.model.rglob("*.safetensors")):
        found |= {f"{path.parent.name}/{name}": value for name, value in load_file(path).items()}
    return found


def test_stages_written_out_are_the_recipe_without_stages(models: Path, tsv: Path, tmp_path: Path) -> None:
    plain = run(recipe_for(models, tsv, tmp_path / "plain", []))
    staged = run(recipe_for(models, tsv, tmp_path / "staged", [{"task": "bridge"}, {"task": "distill"}]))
    assert [report.model for report in plain.reports] == ["untouched", "bridge", "distill"]
    assert weights_hash(plain.model) == weights_hash(staged.model) and plain.reports == staged.reports


def test_an_average_is_the_mean_of_the_weights(models: Path, tsv: Path, tmp_path: Path) -> None:
    start: dict[str, Any] = {"task": "bridge"}
    one: dict[str, Any] = {"task": "distill", "name": "one"}
    two: dict[str, Any] = {"task": "distill", "name": "two", "start": "bridge", "losses": {"ranking": 1.0, "mse": 0.2}}
    mean: dict[str, Any] = {"task": "average", "of": ["one", "two"], "weights": [3.0, 1.0]}
    first = run(recipe_for(models, tsv, tmp_path / "first", [start, one]))
    second = run(recipe_for(models, tsv, tmp_path / "second", [start, two | {"start": ""}]))
    both = run(recipe_for(models, tsv, tmp_path / "both", [start, one, two, mean]))
    assert [report.model for report in both.reports] == ["untouched", "bridge", "one", "two", "average"]
    assert both.reports[2].scores == first.reports[-1].scores, "the same stage from the same start"
    assert both.reports[3].scores == second.reports[-1].scores
    parts = [tensors(result) for result in (first, second, both)]
    assert parts[0].keys() == parts[2].keys() and len(parts[0]) > 5
    for name, value in parts[2].items():
        expected = 0.75 * parts[0][name].double() + 0.25 * parts[1][name].double()
        assert torch.allclose(value.double(), expected, atol=1e-6), name
    model = SentenceTransformer(str(both.model), device="cpu")
    assert np.isfinite(model.encode(["the cat sleeps at night."])).all()


def test_interrupted_in_the_last_of_several_stages_it_continues(models: Path, tsv: Path, tmp_path: Path) -> None:
    stages: list[dict[str, Any]] = [
        {"task": "bridge"},
        {"task": "distill", "name": "one"},
        {"task": "rank", "name": "two", "start": "bridge"},
        {"task": "average", "of": ["one", "two"]},
    ]
    training = TRAINING | {"checkpoint_seconds": 0.0}
    whole = run(recipe_for(models, tsv, tmp_path / "whole", stages, training=training))
    recipe, seen = recipe_for(models, tsv, tmp_path / "cut", stages, training=training), 0

    def stop(step: Step) -> None:
        nonlocal seen
        seen += step.stage == "two"
        if seen > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(recipe, stop)
    again = run(recipe)
    assert {stage.name: stage.summary.steps_now for stage in again.stages}["one"] == 0
    assert weights_hash(again.model) == weights_hash(whole.model) and again.reports == whole.reports


def test_nli_before_distillation_as_ham_and_kim(models: Path, tsv: Path, tmp_path: Path) -> None:
    write_judged(tmp_path)
    stages: list[dict[str, Any]] = [
        {"task": "nli", "files": [str(tmp_path / "nli.tsv")]},
        {"task": "sts", "files": [str(tmp_path / "sts.tsv")], "training": {"epochs": 1}},
        {"task": "bridge"},
        {"task": "distill"},
    ]
    result = run(recipe_for(models, tsv, tmp_path / "run", stages))
    assert [stage.name for stage in result.stages] == ["nli", "sts", "distill"]
    assert [report.model for report in result.reports] == ["untouched", "nli", "sts", "bridge", "distill"]
    assert result.reports[-1].average().teacher_index is not None
    record = json.loads((result.folder / "run.json").read_text())
    assert {"nli", "sts", "bridge", "distill", "measure"} <= set(record["seconds"])


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"task": "distillation"}], "distill"),
        ([{"task": "average", "of": ["later", "untouched"]}, {"task": "distill", "name": "later"}], "later"),
        ([{"task": "distill", "start": "nowhere"}], "nowhere"),
        ([{"task": "translate"}], "bilstm"),
        ([{"task": "nli", "files": ["x"], "file": "y"}], "file"),
    ],
)
def test_stages_that_cannot_be_run_are_refused(
    stages: list[dict[str, Any]], message: str, models: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_for(models, tmp_path / "x.tsv", tmp_path / "run", stages)
    assert message in f"{caught.value} {caught.value.hint}" and caught.value.hint


def test_an_average_of_models_with_other_layers_is_refused(models: Path, tsv: Path, tmp_path: Path) -> None:
    stages: list[dict[str, Any]] = [
        {"task": "bridge"},
        {"task": "distill"},
        {"task": "average", "of": ["untouched", "distill"]},
    ]
    with pytest.raises(IsoglossError, match="other layers"):
        run(recipe_for(models, tsv, tmp_path / "run", stages))

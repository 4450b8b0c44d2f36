"""The sum is the weighted sum of the parts, each with its own settings; what has no weight is not computed."""

import dataclasses
from typing import Any

import pytest
import torch

from isogloss.config import LossSettings
from isogloss.config.sections import LOSSES, LossOverrides
from isogloss.errors import RecipeError
from isogloss.losses import combined as module
from isogloss.losses.bank_similarity import bank_similarity
from isogloss.losses.combined import CombinedLoss, LossBatch, needed
from isogloss.losses.moving_teacher import moving_teacher
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from isogloss.losses.soft_similarity import soft_similarity
from isogloss.losses.spread import spread
from losses.drawn import D, a_batch

SETTINGS: dict[str, Any] = {
    "bank_temperature": 0.4,
    "normalized": True,
    "soft_temperature": 0.3,
    "ranking_temperature": 0.2,
    "margin": 0.1,
}


def expected(views: LossBatch, k: int = D) -> dict[str, torch.Tensor]:
    """Each loss called by hand, with `SETTINGS`, on the first k coordinates."""
    assert views.negatives is not None
    source, target, teacher, hard = (
        views.source[:, :k],
        views.target[:, :k],
        needed(views.teacher)[:, :k],
        views.negatives[:, :k],
    )
    negatives = (hard, views.negative_group, views.negative_weight)
    texts = (views.target_group, views.negative_target_group)
    return {
        "mse": mse(source, target, teacher, views.weight, normalized=True),
        "moving_teacher": moving_teacher(target, teacher, views.weight),
        "soft_similarity": soft_similarity(source, target, teacher, views.weight, 0.3),
        "bank_similarity": bank_similarity(source, target, teacher, needed(views.bank)[:, :k], views.weight, 0.4),
        "ranking": ranking(source, target, views.group, views.weight, 0.2, 0.1, *negatives, *texts),
        "spread": spread(source, target, views.group, views.weight, views.target_group),
    }


def test_parts_and_their_sum() -> None:
    weights: dict[str, Any] = {"mse": 0.5, "moving_teacher": 2.0, "soft_similarity": 3.0}
    weights |= {"bank_similarity": 1.5, "ranking": 0.25, "spread": 7.0}
    values, wanted = CombinedLoss(LossSettings(**weights, **SETTINGS))(a_batch()), expected(a_batch())
    assert list(values) == [*weights, "loss"]
    for name in weights:
        assert torch.equal(values[name], wanted[name]), name
    assert values["loss"].item() == pytest.approx(sum(weights[name] * wanted[name].item() for name in weights))


@pytest.mark.parametrize("name", LOSSES)
def test_each_alone(name: str) -> None:
    weights: dict[str, Any] = {**dict.fromkeys(LOSSES, 0.0), name: 2.0}
    values = CombinedLoss(LossOverrides(**weights, **SETTINGS))(a_batch())
    assert set(values) == {name, "loss"}
    assert torch.equal(values["loss"], 2 * expected(a_batch())[name])


def test_the_default_is_the_papers_loss() -> None:
    views = a_batch()
    values = CombinedLoss(LossSettings())(views)
    assert values["loss"] == values["mse"] == mse(views.source, views.target, needed(views.teacher), views.weight)


def test_without_weight_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> torch.Tensor:
        raise AssertionError("has no weight")

    for name in ("mse", "moving_teacher", "soft_similarity", "bank_similarity", "spread"):
        monkeypatch.setattr(module, name, never)
    combined = CombinedLoss(LossSettings(mse=0.0, ranking=1.0))
    assert combined.weights == {"ranking": 1.0}
    assert torch.isfinite(combined(dataclasses.replace(a_batch(), teacher=None))["loss"])


def test_dimensions_add_prefixes_to_the_full_length() -> None:
    everything = LossSettings(moving_teacher=1.0, soft_similarity=1.0, bank_similarity=1.0, ranking=1.0, spread=1.0, **SETTINGS)
    for dimensions in ((2,), (D, 2)):
        values = CombinedLoss(everything.replace(dimensions=dimensions))(a_batch())
        for name, full in expected(a_batch()).items():
            assert torch.allclose(values[name], (full + expected(a_batch(), 2)[name]) / 2), name


def test_a_compiler_can_trace_it() -> None:
    settings = LossSettings(
        moving_teacher=1.0, soft_similarity=1.0, bank_similarity=1.0, ranking=1.0, spread=1.0, dimensions=(2,), **SETTINGS
    )
    combined = CombinedLoss(settings)
    traced = torch.compile(combined, backend="eager", fullgraph=True, dynamic=True)(a_batch(0.0))
    for name, value in combined(a_batch(0.0)).items():
        assert torch.allclose(traced[name], value), name


@pytest.mark.parametrize(
    "settings",
    [
        {"mse": 0.0},
        {"mse": -1.0, "ranking": 1.0},
        {"spread": float("nan")},
        {"ranking": float("inf")},
        {"soft_temperature": 0.0},
        {"bank_temperature": 0.0},
        {"bank_size": 1},
        {"ranking_temperature": -1.0},
        {"dimensions": (16, 0)},
    ],
)
def test_what_cannot_be_minimised_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        LossSettings(**settings)


def test_a_missing_teacher_is_named() -> None:
    with pytest.raises(ValueError, match="no teacher vectors"):
        CombinedLoss(LossSettings())(dataclasses.replace(a_batch(), teacher=None))

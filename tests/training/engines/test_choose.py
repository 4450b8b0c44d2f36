"""Which engine a recipe gets, and that every setting of it arrives."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.config import BridgeSettings, LossSettings, Recipe, StudentSettings, TrainingSettings
from isogloss.errors import IsoglossError, RecipeError
from isogloss.losses.combined import CombinedLoss
from isogloss.models.frozen_layers import SplitBody
from isogloss.models.student import Student
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine
from isogloss.training.engines.choose import (
    choose_engine,
    ignored_settings,
    refuse_misfits,
    uses_teacher,
    why_not_graphs,
    why_not_recorded,
)
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.engines.graphs import GraphEngine
from isogloss.training.tasks.distill import DistillTask, TrainingInputs, distill_task
from training.by_hand import a_student, an_optimizer, some_material

MOVING = LossSettings(mse=0.0, moving_teacher=1.0)
RANKED = LossSettings(mse=0.0, ranking=1.0)


def distill_engine(
    student: Student,
    inputs: TrainingInputs,
    training: TrainingSettings,
    losses: LossSettings,
    split: SplitBody | None = None,
) -> Engine:
    """As `Distillation.train` chooses it, for seven steps."""
    optimizer, reason = an_optimizer(7, optimizer=training.optimizer), why_not_recorded(training, losses.moving_teacher)
    others = {"split": split, "batch_sizes": [training.batch_pairs], "not_recorded": reason}
    config = EngineConfig.of(training, student, **others)
    return choose_engine(student, [distill_task(student, inputs, losses, 7)], optimizer, config, Distributed())


def chosen(student: Student, training: TrainingSettings, combined: LossSettings | None = None) -> EagerEngine:
    split = SplitBody(student.body, training.train_layers) if training.train_layers else None
    engine = distill_engine(student, some_material(student), training, combined or LossSettings(), split)
    assert isinstance(engine, EagerEngine), "on a CPU there is nothing to record"
    engine.close()
    return engine


def test_the_eager_engine_gets_the_settings_of_the_recipe(models: Path) -> None:
    student = a_student(models)
    eager = chosen(student, TrainingSettings(chunk_pairs=3, dropout=True, precision="bf16"))
    assert (eager.config.chunk_pairs, eager.config.dropout, eager.config.bf16, eager.config.split) == (3, True, True, None)
    assert (eager.config.accumulate, chosen(student, TrainingSettings(accumulate=5)).config.accumulate) == (1, 5)
    assert not chosen(student, TrainingSettings()).config.bf16, "these tests have no CPU that computes bf16"
    assert chosen(student, TrainingSettings(train_layers=2)).config.split is not None
    assert chosen(student, TrainingSettings()).shadows == {}


def test_auto_is_bf16_on_a_cpu_that_computes_it(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for a transformer without padding: attention of others, and LSTMs, are slower in bf16."""
    monkeypatch.setenv("ISOGLOSS_CPU_PRECISION", "bf16")
    student, auto = a_student(models), TrainingSettings()
    assert EngineConfig.of(auto, student).bf16
    assert not EngineConfig.of(auto.replace(precision="float32"), student).bf16
    assert not EngineConfig.of(auto, student.model).bf16
    student.packs = False
    assert not EngineConfig.of(auto, student).bf16
    assert EngineConfig.of(auto.replace(precision="bf16"), student).bf16


def test_a_moving_teacher_is_made_for_as_many_steps_as_there_are(models: Path) -> None:
    engine = chosen(a_student(models), TrainingSettings(), LossSettings(mse=0.0, moving_teacher=1.0, teacher_decay=0.5))
    assert [(shadow.total, shadow.base) for shadow in engine.shadows.values()] == [(7, 0.5)]


def test_frozen_layers_are_not_trained(models: Path) -> None:
    student = a_student(models)
    engine = chosen(student, TrainingSettings(train_layers=1))
    assert engine.table is None and not any("embeddings" in name or "layer.0." in name for name in engine.parameters)
    assert any("layer.3." in name for name in engine.parameters) and any("linear" in name for name in engine.parameters)
    assert {name for name, one in student.model.named_parameters() if one.requires_grad} == set(engine.parameters)


def test_a_graph_engine_that_does_not_fit_is_refused_with_the_reason(models: Path) -> None:
    with pytest.raises(RecipeError, match="not on a CUDA device") as caught:
        chosen(a_student(models), TrainingSettings(engine="graphs"))
    assert 'training.engine = "auto"' in caught.value.hint


def test_a_vocabulary_that_a_batch_may_read_whole_is_left_to_the_eager_engine(
    models: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is recorded here: no CUDA device is needed to decide that it cannot be."""
    student, auto = a_student(models), Recipe()
    monkeypatch.setattr(type(student.model), "device", torch.device("cuda"))
    material, vocabulary = some_material(student), len(student.table)
    tasks = [DistillTask(material, CombinedLoss(LossSettings()))]
    assert why_not_graphs(student, tasks, "adamw", Distributed(), [auto.training.batch_pairs]) == ""
    material.tokens.ids[:vocabulary] = np.arange(vocabulary)
    assert why_not_graphs(student, [], "adamw", Distributed()) == "", "before there are tokens, nothing speaks against it"
    assert why_not_graphs(student, tasks, "adamw", Distributed(), [1]) == "", "a pair has too few tokens for all rows"

    def engine(recipe: Recipe) -> object:
        return distill_engine(student, material, recipe.training, recipe.losses)

    assert isinstance(engine(auto), EagerEngine)
    assert f"not recorded as CUDA graphs: a batch might read every row of the {vocabulary}" in caplog.text
    with pytest.raises(RecipeError, match="might read every row") as caught:
        engine(Recipe(training=TrainingSettings(engine="graphs")))
    assert 'training.engine = "auto"' in caught.value.hint
    caplog.clear()
    assert isinstance(engine(Recipe(training=TrainingSettings(engine="eager"))), EagerEngine)
    assert not caplog.text, "asked for, it needs no reason"


def test_parts_are_not_recorded(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = a_student(models)
    monkeypatch.setattr(type(student.model), "device", torch.device("cuda"))
    parted = Recipe(training=TrainingSettings(accumulate=2))
    assert "training.accumulate" in why_not_recorded(parted.training)
    with pytest.raises(RecipeError, match=r"graphs.*training\.accumulate"):
        refuse_misfits(student, 16, Recipe(training=TrainingSettings(accumulate=2, engine="graphs")))


HINDRANCES = {
    "training.chunk_pairs or": (TrainingSettings(chunk_pairs=2), LossSettings()),
    "training.accumulate works": (TrainingSettings(accumulate=2), LossSettings()),
    "optimizer is not adamw": (TrainingSettings(optimizer="lars"), LossSettings()),
    "the teacher moves": (TrainingSettings(), LossSettings(mse=0.0, moving_teacher=1.0)),
}


@pytest.mark.gpu
def test_on_cuda_steps_are_recorded_unless_something_forbids_it(models: Path) -> None:
    def engine(training: TrainingSettings, combined: LossSettings) -> object:
        student = a_student(models)
        student.model.to("cuda")
        made = distill_engine(student, some_material(student), training, combined)
        made.close()
        return made

    for training in (TrainingSettings(), TrainingSettings(dropout=True)):
        assert isinstance(engine(training, LossSettings()), GraphEngine)
    assert isinstance(engine(TrainingSettings(engine="eager"), LossSettings()), EagerEngine)
    for reason, (training, combined) in HINDRANCES.items():
        assert isinstance(engine(training, combined), EagerEngine), reason
        with pytest.raises(RecipeError, match=reason):
            engine(training.replace(engine="graphs"), combined)


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        (Recipe(bridge=BridgeSettings(enabled=False)), "24-d vectors, the teacher 16-d"),
        (Recipe(losses=LossSettings(dimensions=(99,))), "the first 99 dimensions of vectors that have 16"),
        (
            Recipe(
                bridge=BridgeSettings(enabled=False),
                losses=LossSettings(mse=0.0, soft_similarity=1.0, dimensions=(8,)),
            ),
            "shortens the teacher's vectors",
        ),
        (Recipe(training=TrainingSettings(engine="graphs")), "the model is not on a CUDA device"),
    ],
)
def test_what_cannot_be_trained_is_said_at_once(models: Path, recipe: Recipe, complaint: str) -> None:
    with pytest.raises(IsoglossError, match=complaint) as caught:
        refuse_misfits(Student.from_pretrained(str(models / "student"), device="cpu"), 16, recipe)
    assert caught.value.hint
    refuse_misfits(Student.from_pretrained(str(models / "student"), device="cpu"), 16, Recipe())


def test_without_a_teacher_what_follows_one_is_refused(models: Path) -> None:
    student, alone = a_student(models), BridgeSettings(enabled=False)
    with pytest.raises(RecipeError, match=r"bridge\.enabled and losses\.mse need a teacher"):
        refuse_misfits(student, None, Recipe())
    refuse_misfits(student, None, Recipe(bridge=alone, losses=RANKED))
    with pytest.raises(RecipeError, match="dimensions of vectors that have 16"):
        refuse_misfits(student, None, Recipe(bridge=alone, losses=RANKED.replace(dimensions=(99,))))


@pytest.mark.parametrize(
    ("recipe", "idle"),
    [
        (Recipe(bridge=BridgeSettings(enabled=False), losses=RANKED), True),
        (Recipe(losses=RANKED), False),
        (Recipe(bridge=BridgeSettings(enabled=False)), False),
        (Recipe(bridge=BridgeSettings(enabled=False), losses=MOVING), False),
        (
            Recipe(bridge=BridgeSettings(enabled=False), losses=RANKED, student=StudentSettings(kind="teacher-body")),
            False,
        ),
    ],
)
def test_a_teacher_that_nothing_follows_is_said(recipe: Recipe, idle: bool) -> None:
    assert uses_teacher(recipe) is not idle and not ignored_settings(24, None, recipe)
    found = ignored_settings(16, 16, recipe)
    assert len(found) == idle
    for one in found:
        assert "only what the result is measured beside" in one.sentence and 'teacher.model = ""' in one.hint


@pytest.mark.parametrize(
    ("recipe", "reason", "hint"),
    [
        (Recipe(training=TrainingSettings(select="mse")), "", ""),
        (Recipe(training=TrainingSettings(select="mse"), bridge=BridgeSettings(enabled=False)), "have dimension 24", "bridge"),
        (
            Recipe(training=TrainingSettings(select="mse"), losses=MOVING),
            "no loss uses a fixed teacher",
            "losses.mse",
        ),
        (Recipe(training=TrainingSettings(select="mse"), losses=RANKED), "no loss uses a fixed teacher", "both"),
        (Recipe(training=TrainingSettings(), losses=MOVING), "", ""),
        (Recipe(training=TrainingSettings(select="mse", dev_pairs=0), losses=MOVING), "", ""),
    ],
)
def test_a_choice_by_a_teacher_that_is_not_there_is_said(recipe: Recipe, reason: str, hint: str) -> None:
    found = ignored_settings(24, 16, recipe)
    assert len(found) == bool(reason)
    for one in found:
        assert reason in one.sentence and recipe.training.select in one.sentence and hint in one.hint

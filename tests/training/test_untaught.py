"""Losses that follow nobody, on tiny real models: they train without a teacher, and one that is there changes nothing."""

from pathlib import Path

import numpy as np
import pytest

from isogloss.config import BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.errors import ModelError, RecipeError
from isogloss.evaluation.alignment import evaluate
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.training.distillation import Distillation, distill
from isogloss.types import Bitext

RANKED = Recipe(
    training=TrainingSettings(epochs=6, batch_pairs=16, learning_rate=3e-3, dev_pairs=0),
    bridge=BridgeSettings(enabled=False),
    losses=LossSettings(mse=0.0, ranking=1.0, margin=0.3),
)


def test_without_a_teacher_pairs_are_found_by_vectors_of_length_1(models: Path, bitext: Bitext) -> None:
    student = Student.from_pretrained(str(models / "student"))
    before = evaluate(student, None, bitext).average()
    session = Distillation(student, None, bitext, RANKED)
    with pytest.raises(ModelError, match="no teacher vectors"):
        session.build_bridge()
    assert session.train().loss > 0
    after = evaluate(student, None, bitext).average()
    assert after.to_source > before.to_source + 0.2 and after.from_source > before.from_source + 0.2
    assert np.allclose(np.linalg.norm(student.encode(["the cat runs home."]), axis=1), 1, atol=1e-5)


def test_without_a_teacher_nothing_can_follow_one(models: Path, bitext: Bitext) -> None:
    with pytest.raises(RecipeError, match=r"losses\.mse needs a teacher"):
        distill(Student.from_pretrained(str(models / "student")), None, bitext, RANKED.replace(losses=LossSettings()))


def test_without_a_teacher_none_is_advised(models: Path, bitext: Bitext) -> None:
    idle = TrainingSettings(epochs=1, batch_pairs=16, learning_rate=0.0, dev_pairs=4, dev_share=0.5)
    summary = distill(Student.from_pretrained(str(models / "student")), None, bitext, RANKED.replace(training=idle))
    assert summary.setback.startswith("no step of the training did better") and "losses.mse" not in summary.setback


def test_a_teacher_that_nothing_follows_embeds_nothing(
    models: Path, bitext: Bitext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[Step] = []
    short = RANKED.replace(training=RANKED.training.replace(epochs=1))
    teacher, student = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"))
    distill(student, teacher, bitext, short, tmp_path, on_progress=steps.append)
    assert "teacher" not in {step.stage for step in steps} and not list(tmp_path.glob("teacher-*"))
    assert any("no loss and no bridge uses the teacher" in said for said in caplog.messages)

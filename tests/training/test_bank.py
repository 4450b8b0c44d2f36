"""The bank of `bank_similarity`: which teacher vectors it holds, and that training by it finds the teacher's neighbors."""

from pathlib import Path

import numpy as np
import pytest

from isogloss.config import BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.errors import ModelError
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.training.distillation import Distillation
from isogloss.types import Bitext, FloatArray
from tiny import PAIRS
from training.by_hand import SOURCES

TRAINING = TrainingSettings(epochs=6, batch_pairs=16, learning_rate=3e-3, dev_pairs=0)


TRAINED = sorted({pair.source for pair in PAIRS if pair.split == "train"})


def session(models: Path, bitext: Bitext, seed: int = 17, bridge: bool = True, **losses: float) -> Distillation:
    student = Student.from_pretrained(str(models / "student"))
    settings = LossSettings.model_validate({"mse": 0.0, "bank_similarity": 1.0} | losses)
    recipe = Recipe(seed=seed, training=TRAINING, losses=settings, bridge=BridgeSettings(enabled=bridge))
    return Distillation(student, load(str(models / "teacher")), bitext, recipe)


def bank_of(found: Distillation) -> FloatArray:
    bank = found._bank()
    assert bank is not None
    return bank


def test_it_holds_the_teachers_vector_of_every_source_once(models: Path, bitext: Bitext) -> None:
    found = session(models, bitext)
    bank = bank_of(found)
    assert bank.dtype == np.float32 and len(bank) == len(TRAINED)
    wanted = load(str(models / "teacher")).encode(TRAINED)
    nearest = np.abs(bank[:, None] - wanted[None]).max(2).min(1)
    assert nearest.max() < 1e-3  # kept in half precision


def test_a_smaller_one_is_drawn_by_the_seed(models: Path, bitext: Bitext) -> None:
    whole = bank_of(session(models, bitext))
    some = bank_of(session(models, bitext, bank_size=8))
    assert len(some) == 8 and all((whole == row).all(1).any() for row in some) and len(np.unique(some, axis=0)) == 8
    assert np.array_equal(some, bank_of(session(models, bitext, bank_size=8)))
    assert not np.array_equal(some, bank_of(session(models, bitext, seed=18, bank_size=8)))
    assert session(models, bitext, mse=1.0, bank_similarity=0.0)._bank() is None


def test_trained_by_it_alone_the_student_ranks_the_teachers_vectors_better(models: Path, bitext: Bitext) -> None:
    found = session(models, bitext, bank_temperature=0.005)  # the tiny teacher's cosines lie between 0.91 and 0.98
    found.build_bridge()
    targets = list({pair.source: pair.target for pair in PAIRS}.values())
    index = load(str(models / "teacher")).encode(SOURCES)

    def ranked_first() -> float:
        return float((np.argmax(found.student.encode(targets) @ index.T, 1) == np.arange(len(SOURCES))).mean())

    before = ranked_first()
    found.train()
    assert ranked_first() > before + 0.1


def test_another_dimension_needs_a_bridge(models: Path, bitext: Bitext) -> None:
    with pytest.raises(ModelError, match="-d vectors, the teacher"):
        session(models, bitext, bridge=False)

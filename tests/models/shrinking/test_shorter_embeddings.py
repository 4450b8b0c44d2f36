"""Embeddings cut inside a model are the prefixes of the whole ones, at length 1 if the model's are."""

from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import ModelError
from isogloss.models.bridge import Bridge
from isogloss.models.shrinking.shorter_embeddings import cut_embeddings
from isogloss.models.static import static_student
from isogloss.models.student import Student
from tiny import TEXTS

SHORT = 5


def bridged(models: Path) -> Student:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    random = np.random.default_rng(3)
    weight, bias = (random.normal(size=size).astype(np.float32) for size in ((16, student.dimension), (16,)))
    student.add_bridge(Bridge(weight, bias, 0.1, {}), normalize=True)
    return student


def static(models: Path) -> Student:
    return static_student(Student.from_pretrained(str(models / "student"), device="cpu").tokenizer, 8)


def teacher(models: Path) -> Student:
    return Student.from_pretrained(str(models / "teacher"), device="cpu")


@pytest.mark.parametrize("make", [bridged, static, teacher])
def test_cut_embeddings_are_prefixes(models: Path, make: type) -> None:
    whole: Student = make(models)
    short = whole.copy()
    cut_embeddings(short, SHORT)
    wanted = whole.encode(TEXTS[:20])[:, :SHORT]
    if type(whole.model[-1]).__name__ == "Normalize":
        wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    assert short.dimension == SHORT and short.encode(TEXTS[:20]) == pytest.approx(wanted, abs=1e-5)
    assert sum(map(np.size, (part.detach().numpy() for part in short.model.parameters()))) <= (
        sum(map(np.size, (part.detach().numpy() for part in whole.model.parameters()))) + SHORT * whole.dimension
    )


def test_copy_can_be_changed_without_the_original(models: Path) -> None:
    whole = bridged(models)
    before, prompt = whole.fingerprint, whole.prompt
    short = whole.copy()
    assert short.fingerprint == before and short.max_tokens == whole.max_tokens and short.prompt == prompt
    cut_embeddings(short, SHORT)
    assert whole.fingerprint == before and short.fingerprint != before


def test_saved_cut_model_gives_the_same(models: Path, tmp_path: Path) -> None:
    short = bridged(models)
    cut_embeddings(short, SHORT)
    short.save_pretrained(tmp_path / "short")
    again = Student.from_pretrained(str(tmp_path / "short"), device="cpu")
    assert again.encode(TEXTS[:4]) == pytest.approx(short.encode(TEXTS[:4]), abs=1e-6)


def test_whole_size_changes_nothing_and_impossible_ones_are_refused(models: Path) -> None:
    student = teacher(models)
    before = student.fingerprint
    cut_embeddings(student, student.dimension)
    assert student.fingerprint == before
    for size in (0, student.dimension + 1):
        with pytest.raises(ModelError, match=f"cannot be cut to {size}"):
            cut_embeddings(student, size)

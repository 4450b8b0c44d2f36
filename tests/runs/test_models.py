"""From a recipe to models: what a kind of student is made of."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from isogloss.config import StudentSettings
from isogloss.errors import ModelError
from isogloss.models.static import StaticStudent
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.runs.models import open_models
from isogloss.types import Bitext
from tiny import PAIRS, tiny_recipe


def test_a_static_table_is_made_of_the_rows_that_trimming_leaves(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.train_layers=0")
    settings = StudentSettings(model=str(models / "student"), kind="static", trim="corpus", dimension=8)
    russian = Bitext.of(pair for pair in PAIRS if pair.language == "ru")
    heard: list[Step] = []
    _, student, done = open_models(recipe.replace(student=settings), russian, on_progress=heard.append)
    made = max(step.done for step in heard if step.stage == "token table")
    assert isinstance(student, StaticStudent) and student.dimension == 8
    assert done["trimming"]["rows_after"] == len(student.table) < done["trimming"]["rows_before"]
    assert made <= len(student.table), "tokens were encoded that nobody keeps"
    assert np.linalg.norm(student.encode(["кошка спит"])) > 0


def test_without_trimming_it_has_them_all(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.train_layers=0")
    settings = StudentSettings(model=str(models / "student"), kind="static", trim="off", dimension=8)
    _, student, done = open_models(recipe.replace(student=settings), Bitext.of(PAIRS))
    assert "trimming" not in done and len(student.table) == len(student.tokenizer)


@pytest.mark.parametrize("kind", ["encoder", "static"])
def test_trimming_keeps_the_pieces_of_prompts_for_queries_and_documents(
    models: Path, tsv: Path, tmp_path: Path, kind: Literal["encoder", "static"]
) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.train_layers=0")
    settings = StudentSettings(model=str(models / "student"), kind=kind, trim="corpus", max_tokens=32)
    russian = Bitext.of(pair for pair in PAIRS if pair.language == "ru")
    _, plain, _ = open_models(recipe.replace(student=settings), russian)
    assert not {"▁λόγος", "zzz"} & plain.tokenizer.get_vocab().keys()
    prompted = settings.replace(query_prompt="λόγος ", document_prompt="zzz ")
    _, student, _ = open_models(recipe.replace(student=prompted), russian)
    assert student.tokenizer.get_vocab().keys() >= {"▁λόγος", "zzz"}
    assert (student.model.prompts["query"], student.model.prompts["document"]) == ("λόγος ", "zzz ")


@pytest.mark.parametrize("kind", ["encoder", "teacher-body"])
def test_text_is_read_up_to_max_tokens_whatever_the_model_was_saved_with(
    models: Path, tsv: Path, tmp_path: Path, kind: Literal["encoder", "teacher-body"]
) -> None:
    Student.from_pretrained(str(models / "student"), max_tokens=10, device="cpu").save_pretrained(tmp_path / "short")
    recipe, settings = tiny_recipe(models, tsv, tmp_path / "run"), StudentSettings(model=str(tmp_path / "short"), kind=kind)
    text = " ".join(pair.source for pair in PAIRS)
    _, student, _ = open_models(recipe.replace(student=settings.replace(max_tokens=64)), Bitext.of(PAIRS))
    assert student.max_tokens == student.tokenize([text]).lengths[0] == 64
    with pytest.raises(ModelError, match="max_tokens = 65, but the model reads at most 64 tokens"):
        open_models(recipe.replace(student=settings.replace(max_tokens=65)), Bitext.of(PAIRS))

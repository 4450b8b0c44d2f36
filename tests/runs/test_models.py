"""From a recipe to models: what a kind of student is made of."""

from pathlib import Path

import numpy as np

from isogloss.config import StudentSettings
from isogloss.models.static import StaticStudent
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

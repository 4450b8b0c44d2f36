"""Whole runs of recipes that follow no teacher: a dual encoder like LaBSE, and a teacher that is there for nothing."""

import json
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.config import EvaluationSettings, Recipe
from isogloss.corpora.store import open_store
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.progress import Step
from isogloss.runs.measure import measured_pairs
from isogloss.runs.pipeline import run
from killed import ended, run_until, started
from tiny import OFTEN, UNTAUGHT, tiny_recipe


def test_without_a_teacher_it_learns_to_find_translations(models: Path, tsv: Path, tmp_path: Path) -> None:
    """Killed on the way and continued, beside a run that was not: a model like LaBSE, which plain libraries load."""

    def recipe(name: str) -> Recipe:
        more = OFTEN, "training.epochs=6", "training.learning_rate=3e-3"
        return tiny_recipe(models, tsv, tmp_path / name, *UNTAUGHT, *more)

    (tmp_path / "cut.toml").write_text(recipes.dump(recipe("cut")), encoding="utf-8")
    assert ended(started(run_until, tmp_path / "cut.toml", "distill", 12)) == -9
    steps: list[Step] = []
    result, whole = run(recipe("cut"), steps.append), run(recipe("whole"))
    assert any("continued at step" in step.note for step in steps)
    cut, one = (json.loads((done.folder / "run.json").read_text()) for done in (result, whole))
    assert cut["hashes"] == one["hashes"] and one["hashes"]["teacher"] == ""
    assert result.training is not None and not result.training.setback and result.training.best_step > 0
    assert result.training.dev["dev_retrieval"] > result.training.dev_before["dev_retrieval"] + 0.2
    assert result.training.dev["dev_lead"] > result.training.dev_before["dev_lead"]
    before, after = (report.average() for report in result.reports)
    assert [report.model for report in result.reports] == ["untouched", "distill"]
    assert after.to_source > before.to_source and after.from_source > before.from_source
    assert (after.teacher_index, after.cosine, after.mse) == (None, None, None)
    assert not {"teacher", "teacher, held out"} & {step.stage for step in steps}
    assert [(step.done, step.total) for step in steps if step.stage == "models"] == [(0, 1), (1, 1)]
    questions = AlignmentEvaluator(measured_pairs(open_store(result.folder / "pairs"), EvaluationSettings()))
    (kept,) = (result.folder / "work").glob("trained-*.npy")
    saved = SentenceTransformer(str(result.model), device="cpu").encode(questions.texts)
    assert np.allclose(saved, np.load(kept), atol=1e-5) and np.allclose(np.linalg.norm(saved, axis=1), 1, atol=1e-5)
    card = (result.model / "README.md").read_text().partition("## How to reproduce")[0]
    assert "teacher" not in card and "dual-encoder" in card
    assert result.details["regressions"] == [] and "earlier stage" not in card, "what lost nothing says nothing"


def test_without_a_teacher_a_loss_is_said_and_no_teacher_advised(models: Path, tsv: Path, tmp_path: Path) -> None:
    wild = ["training.learning_rate=0.5", "training.warmup=0.0", "training.dev_pairs=0", "training.epochs=4"]
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *UNTAUGHT, *wild, f"student.model={models / 'teacher'}"))
    assert result.training is not None
    said, (before, after) = result.training.setback, (report.average() for report in result.reports)
    shown = f"sources found by their translation {after.to_source:.1%} (was {before.to_source:.1%}) on average"
    assert shown in said and "than the untouched student" in said and "losses.mse" not in said
    assert {one["score"] for one in result.details["regressions"]} <= {"to_source", "from_source"}


def test_a_teacher_that_nothing_follows_is_measured_beside_and_not_named(models: Path, tsv: Path, tmp_path: Path) -> None:
    named = f"teacher.model={models / 'teacher'}", f"student.model={models / 'teacher'}", "training.epochs=1"
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *UNTAUGHT, *named))
    assert result.reports[-1].model == "distill" and result.reports[-1].average().teacher_index is not None
    assert "in the space of" not in (result.model / "README.md").read_text()
    said = json.loads((result.folder / "run.json").read_text())["warnings"]
    assert any("no loss and no bridge uses the teacher" in one for one in said)

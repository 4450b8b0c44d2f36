"""Scores of `evaluate --json` beside a model: the hub's own package reads them, and a second time replaces the first."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from huggingface_hub import ModelCard
from huggingface_hub._eval_results import parse_eval_result_entries

from isogloss.checksums import check_sums
from isogloss.errors import DataError, IsoglossError
from isogloss.models.student import Student
from isogloss.report.card import CardInfo, model_card
from isogloss.report.eval_results import add_scores, read_scores
from isogloss.types import LanguageScores, Report

SCORES = [("STS 2017, one language", "es-es", 0.80478, [0.748, 0.849]), ("Tatoeba", "de", 0.985, None)]
LOCAL = [("STSb, English and a translation", "en-de", 0.75, [0.7, 0.8]), ("Tatoeba", "Avg.", 0.9, None)]


def evaluated(scores: list[tuple[str, str, float, list[float] | None]], fingerprint: str) -> dict[str, Any]:
    """What `isogloss evaluate --json` prints for two models."""

    def column(name: str, value: float, span: list[float] | None) -> dict[str, Any]:
        own = {"model": "runs/mine", "value": value, "interval": span, "leaks": ""}
        other = {"model": "muse", "value": 0.1, "interval": None, "leaks": ""}
        return {"name": name, "measure": "Spearman of cosine", "rows": 250, "scores": [other, own]}

    tables = [{"title": title, "columns": [column(name, value, span)]} for title, name, value, span in scores]
    models = [{"name": "muse", "fingerprint": "other"}, {"name": "runs/mine", "fingerprint": fingerprint}]
    return {"suite": "x", "models": models, "tables": tables}


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    report = Report("m", (LanguageScores("de", 10, 0.9, 0.95, 1.0, 0.61),), 4000)
    student.save_pretrained(
        tmp_path / "model", model_card(CardInfo(name="mine", description="Words.", reports=[report]), student.model)
    )
    return tmp_path / "model"


def test_what_the_hub_reads(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text(json.dumps(evaluated([("Tatoeba", "fr", 0.1, None)], "mine")))
    add_scores(folder, read_scores(tmp_path / "first.json", "mine"))
    (tmp_path / "scores.json").write_text(json.dumps(evaluated([*SCORES, *LOCAL], "mine")))
    add_scores(folder, read_scores(tmp_path / "scores.json", "mine"))
    entries = parse_eval_result_entries(yaml.safe_load((folder / ".eval_results" / "isogloss.yaml").read_text()))
    assert [(one.dataset_id, one.task_id, one.value) for one in entries] == [
        ("mteb/sts17-crosslingual-sts", "es-es", 80.48),
        ("mteb/tatoeba-bitext-mining", "de", 98.5),
    ]
    assert "74.8 to 84.9" in str(entries[0].notes) and "interval" not in str(entries[1].notes)
    card = ModelCard.load(folder / "README.md")
    assert {(one.dataset_type, one.metric_value) for one in card.data.eval_results or []} >= {
        ("held-out-pairs", 0.95),
        ("mteb/sts17-crosslingual-sts", 80.48),
        ("mteb/tatoeba-bitext-mining", 98.5),
    }
    assert "Words." in card.text and card.text.count("## Test sets") == 1
    assert "| es-es | 80.5 | 74.8 to 84.9 |" in card.text and "| en-de | 75.0 | 70.0 to 80.0 |" in card.text
    assert "| Avg. | 90.0 | – |" in card.text and "| fr |" not in card.text, "earlier scores are replaced"
    check_sums(folder, lambda name: IsoglossError(name))


def test_scores_of_the_original_are_called_that(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text(json.dumps(evaluated(SCORES, "mine")))
    for _ in range(2):
        add_scores(folder, read_scores(tmp_path / "scores.json", "mine"), "original")
    card = ModelCard.load(folder / "README.md")
    assert card.text.count("\n## Test sets (original)\n") == 1 == card.text.count("## Test sets")
    names = [one.dataset_name for one in card.data.eval_results or [] if one.dataset_type != "held-out-pairs"]
    assert names and all(name.endswith(" (original)") for name in names)
    entries = parse_eval_result_entries(yaml.safe_load((folder / ".eval_results" / "isogloss.yaml").read_text()))
    assert all("× 100 (original), measured by" in str(entry.notes) for entry in entries)


def test_scores_of_another_model_or_no_scores(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text(json.dumps(evaluated(SCORES, "mine")))
    with pytest.raises(DataError, match="muse, runs/mine, but their weights are not those of this model"):
        read_scores(tmp_path / "scores.json", "another")
    (tmp_path / "other.json").write_text('{"models": 3}')
    with pytest.raises(DataError, match="not the scores of a model"):
        read_scores(tmp_path / "other.json", "mine")
    with pytest.raises(DataError, match="no such file"):
        read_scores(tmp_path / "gone.json", "mine")

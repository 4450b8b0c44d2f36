"""Saving: the card says what was measured, and nothing that is not a model is ever replaced."""

from pathlib import Path

import pytest

from isogloss.errors import IsoglossError
from isogloss.export.folder import model_card, save
from isogloss.models.student import Student
from isogloss.types import LanguageScores, Report


def test_a_folder_with_other_things_is_left_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "thesis.txt").write_text("years of work")
    with pytest.raises(IsoglossError, match="has other things in it than a model"):
        save(Student.load(str(models / "student")), tmp_path / "documents")
    assert (tmp_path / "documents" / "thesis.txt").read_text() == "years of work"


def test_card_has_the_scores_and_how_to_load_it() -> None:
    scores = (LanguageScores("de", 10, 0.9, 0.95, 1.0, 0.61), LanguageScores("ko", 10, None, 0.85, 0.9, None))
    card = model_card(
        "mine", "teacher-model", "student-model", ("de", "en", "ko"), "12 training pairs", Report("m", scores, 40)
    )
    assert "| de | 90.0 | 95.0 | 100.0 | 0.610 |" in card
    assert "| ko | – | 85.0 | 90.0 | – |" in card
    assert "| average | – | 90.0 | 95.0 | – |" in card
    assert "12 training pairs" in card and "`teacher-model`" in card and "SentenceTransformer(" in card
    assert card.startswith("---\n") and '- "ko"' in card


def test_a_card_without_a_teacher_names_none() -> None:
    report = Report("m", (LanguageScores("de", 10, None, 0.95, 1.0, None),), 40)
    card = model_card("mine", "", "student-model", ("de", "en"), "12 training pairs", report)
    assert "| language | to source | from source |\n| --- | --- | --- |\n| de | 95.0 | 100.0 |" in card
    assert "teacher" not in card and "taught" not in card and "dual-encoder" in card and "12 training pairs" in card


def test_a_card_shows_no_keys() -> None:
    card = model_card("x", "https://u:SECRET@h/v1", "https://h/v1?api_key=SECRET#m", ("de",), "10 pairs", None)
    assert "SECRET" not in card and "https://***@h/v1" in card and "api_key=***#m" in card

"""What is exported: the model with its own limit, pairs to measure on, and text to calibrate on."""

from pathlib import Path

import pytest

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.source import ExportSource
from isogloss.models.static import StaticStudent, static_student
from isogloss.models.student import Student
from isogloss.types import TEST, TRAIN
from tiny import PAIRS, save_tiny_model, unigram


def test_text_is_truncated_where_the_model_says(tmp_path: Path) -> None:
    table = static_student(unigram(), 8, max_tokens=300)
    table.save_pretrained(tmp_path / "table")
    assert StaticStudent.from_pretrained(str(tmp_path / "table")).max_tokens == 128
    assert ExportSource(str(tmp_path / "table"), ExportSettings()).student.max_tokens == 300
    save_tiny_model(tmp_path / "model", width=8, layers=1, seed=1, normalize=False)
    Student.from_pretrained(str(tmp_path / "model"), max_tokens=50, device="cpu").save_pretrained(tmp_path / "short")
    assert ExportSource(str(tmp_path / "short"), ExportSettings()).student.max_tokens == 50
    assert ExportSource(str(tmp_path / "model"), ExportSettings()).student.max_tokens == 64


@pytest.mark.parametrize("count", [0, 7, 30])
def test_calibration_text_is_training_text_of_each_language(tsv: Path, tmp_path: Path, count: int) -> None:
    source = ExportSource("any", ExportSettings(calibration=count), [str(tsv)])
    texts = source.calibration_texts
    assert len(texts) == len(set(texts)) == count
    sides = [{pair.source for pair in PAIRS if pair.split == TRAIN}]
    sides += [{pair.target for pair in PAIRS if pair.language == code and pair.split == TRAIN} for code in ("de", "ru")]
    found = [len({*texts} & side) for side in sides]
    assert sum(found) == count and max(found) - min(found) <= 1
    assert source.measured.where(split=TEST).sources()


def test_pairs_without_training_text_leave_calibration_to_the_phrasebook(tmp_path: Path) -> None:
    (tmp_path / "named.tsv").write_text("en\tde\nthe cat\tdie Katze\nthe dog\tder Hund\n", encoding="utf-8")
    source = ExportSource("any", ExportSettings(calibration=20), [str(tmp_path / "named.tsv")])
    assert len(source.calibration_texts) == 20 and "die Katze" not in source.calibration_texts


@pytest.mark.parametrize(("name", "title"), [("org/name", "name"), ("{}/x/../model", "model"), ("{}/none", "none")])
def test_a_title_is_the_last_part_of_a_name(tmp_path: Path, name: str, title: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "model").mkdir()
    assert ExportSource(name.format(tmp_path), ExportSettings()).title == title

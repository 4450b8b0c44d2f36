"""The record says what a run depended on; the metrics log has every step once."""

import json
import logging
from pathlib import Path

import pytest

from isogloss.config import Recipe, TeacherSettings
from isogloss.progress import Step, silent
from isogloss.runs.record import Metrics, Record, hardware, memory_gib, peak_memory_gib, versions


def logged(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_steps_taken_again_replace_what_was_logged(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path, silent)
    for number in (10, 20, 30):
        metrics(Step("distil", values={"step": number, "loss": 1 / number}))
    metrics(Step("distil", note="no values, no line"))
    path.write_text(path.read_text() + '{"stage": "distil", "st')  # killed while writing
    again = Metrics(path, silent)
    for number in (20, 30, 40):
        again(Step("distil", values={"step": number, "loss": 2.0}))
    assert logged(path) == [10, 20, 30, 40]
    assert json.loads(path.read_text().splitlines()[1])["loss"] == 2


def test_progress_is_passed_on(tmp_path: Path) -> None:
    seen: list[Step] = []
    Metrics(tmp_path / "m.jsonl", seen.append)(Step("teacher", 1, 2))
    assert seen == [Step("teacher", 1, 2)] and not (tmp_path / "m.jsonl").exists()


def test_record_goes_from_running_to_finished(tmp_path: Path) -> None:
    record = Record(tmp_path, Recipe(name="x"))
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"
    with record.timed("pairs"):
        pass
    record.note(hashes={"pairs": "abc"})
    record.note(hashes={"teacher": "def"})
    record.finish()
    data = json.loads((tmp_path / "run.json").read_text())
    assert data["status"] == "finished" and data["hashes"] == {"pairs": "abc", "teacher": "def"}
    assert data["seconds"]["pairs"] >= 0 and data["recipe"]["name"] == "x"


def test_facts_about_the_machine() -> None:
    assert versions()["numpy"] != "not installed"
    assert hardware()["cores"]
    assert (memory_gib() or 1) > 0.1 and (peak_memory_gib() or 1) > 0.05


def test_what_is_warned_of_in_a_stage_is_written_down_once_and_at_once(tmp_path: Path) -> None:
    record = Record(tmp_path, Recipe())
    speaker = logging.getLogger("isogloss.training.distill")
    with record.timed("distil"):
        for _ in range(2):
            speaker.warning("%s is of other settings", "a checkpoint")
        speaker.info("nothing to worry about")
        assert json.loads((tmp_path / "run.json").read_text())["warnings"] == ["a checkpoint is of other settings"]
    speaker.warning("of another run")
    with pytest.raises(ZeroDivisionError), record.timed("measure"):
        _ = 1 / 0
    speaker.warning("of another run")
    assert record.data["warnings"] == ["a checkpoint is of other settings"]


def test_keys_in_addresses_are_not_written_down(tmp_path: Path) -> None:
    record = Record(tmp_path, Recipe(teacher=TeacherSettings(model="https://h/v1?api_key=SECRET#m")))
    record.note(details={"from": ["https://u:SECRET@h/"]})
    assert "SECRET" not in (tmp_path / "run.json").read_text() and "api_key=***#m" in (tmp_path / "run.json").read_text()

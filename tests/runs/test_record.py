"""The record says what a run depended on; the metrics log has every step once."""

import json
import logging
from pathlib import Path

import pytest

from isogloss.config import Recipe, TeacherSettings, as_dict
from isogloss.progress import Step, silent
from isogloss.runs.record import MetricsLog, Record, hardware, memory_gib, peak_memory_gib, versions


def logged(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_steps_taken_again_replace_what_was_logged(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsLog(path, silent)
    for number in (10, 20, 30):
        metrics(Step("distill", values={"step": number, "loss": 1 / number}))
    metrics(Step("distill", note="no values, no line"))
    path.write_text(path.read_text() + '{"stage": "distill", "st')  # killed while writing
    again = MetricsLog(path, silent)
    for number in (20, 30, 40):
        again(Step("distill", values={"step": number, "loss": 2.0}))
    assert logged(path) == [10, 20, 30, 40]
    assert json.loads(path.read_text().splitlines()[1])["loss"] == 2


def test_progress_is_passed_on(tmp_path: Path) -> None:
    seen: list[Step] = []
    MetricsLog(tmp_path / "m.jsonl", seen.append)(Step("teacher", 1, 2))
    assert seen == [Step("teacher", 1, 2)] and not (tmp_path / "m.jsonl").exists()


def test_record_goes_from_running_to_finished(tmp_path: Path) -> None:
    record = Record(tmp_path, {"recipe": as_dict(Recipe(name="x"))})
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
    record = Record(tmp_path, {})
    speaker = logging.getLogger("isogloss.training.distillation")
    with record.timed("distill"):
        for _ in range(2):
            speaker.warning("%s is of other settings", "a checkpoint")
        speaker.info("nothing to worry about")
        assert json.loads((tmp_path / "run.json").read_text())["warnings"] == ["a checkpoint is of other settings"]
    speaker.warning("of another run")
    with pytest.raises(ZeroDivisionError), record.timed("measure"):
        _ = 1 / 0
    speaker.warning("of another run")
    assert record.data["warnings"] == ["a checkpoint is of other settings"]


class Clock:
    """Time that goes on by a second each time it is asked for."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def written(folder: Path) -> dict[str, float]:
    seconds: dict[str, float] = json.loads((folder / "run.json").read_text())["seconds"]
    return seconds


def test_stages_of_one_name_add_up_also_when_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.runs.record.time", Clock())
    record = Record(tmp_path, {"recipe": {}})
    for _ in range(2):
        with record.timed("vectors"):
            pass
    assert written(tmp_path) == {"vectors": 2.0}, "on disk when the stage has ended"
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), record.timed("vectors"):
            raise error
    assert written(tmp_path) == {"vectors": 4.0}


def test_an_interrupted_run_that_goes_on_adds_to_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.runs.record.time", Clock())
    for settings, finished, expected in (
        ({"seed": 1}, False, 1.0),
        ({"seed": 1}, True, 2.0),  # goes on
        ({"seed": 1}, False, 1.0),  # of a finished one: begins again
        ({"seed": 2}, False, 1.0),  # of other settings
    ):
        record = Record(tmp_path, settings)
        with record.timed("distill"):
            pass
        assert written(tmp_path) == {"distill": expected}
        if finished:
            record.finish()


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"seconds": 3', "null"])
def test_a_damaged_record_is_written_anew(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "run.json").write_text(damaged)
    Record(tmp_path, {})
    assert written(tmp_path) == {}


def test_a_record_that_cannot_be_written_does_not_hide_what_went_wrong(tmp_path: Path) -> None:
    record = Record(tmp_path / "run", {})
    record.folder = tmp_path / "run" / "run.json" / "below a file"
    with pytest.raises(ZeroDivisionError), record.timed("distill"):
        _ = 1 / 0


@pytest.mark.parametrize("strange", ["[1, 2]", '"text"', '{"step": "ten"}', '{"step": null}', "\x00\xff", "[" * 100_000, "NaN"])
def test_a_strange_line_is_left_out_with_a_sentence(tmp_path: Path, strange: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsLog(path, silent)
    for number in (10, 20):
        first(Step("distill", values={"step": number}))
    lines = path.read_text().splitlines()
    path.write_bytes(f"{lines[0]}\n{strange}\n{lines[1]}\n".encode("latin-1"))
    again = MetricsLog(path, silent)
    assert caplog.messages == [f"{path}: skipped 1 line that cannot be read"] and again.last_step == {"distill": 20}
    again(Step("distill", values={"step": 20}))
    assert logged(path) == [10, 20]
    MetricsLog(path, silent)
    assert len(caplog.messages) == 1, "it is said once"


def test_a_line_that_a_kill_cut_off_is_left_out_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"stage": "distill", "step": 10}\n{"stage": "dis')
    assert MetricsLog(path, silent).last_step == {"distill": 10} and not caplog.messages and logged(path) == [10]


def test_keys_in_addresses_are_not_written_down(tmp_path: Path) -> None:
    record = Record(tmp_path, as_dict(Recipe(teacher=TeacherSettings(model="https://h/v1?api_key=SECRET#m"))))
    record.note(details={"from": ["https://u:SECRET@h/"]})
    assert "SECRET" not in (tmp_path / "run.json").read_text() and "api_key=***#m" in (tmp_path / "run.json").read_text()

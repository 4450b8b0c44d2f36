"""The folder of a run: no foreign files, one run at a time, no finished model replaced by accident."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from isogloss.errors import IsoglossError
from isogloss.runs.run_folder import run_folder
from isogloss.storage import read_json, write_json

ASKED: dict[str, Any] = {"recipe": {"seed": 17, "training": {"epochs": 3, "engine": "auto"}, "output": {"folder": "x"}}}


def enter(folder: Path, asked: Mapping[str, Any] = ASKED, **how: Any) -> None:  # noqa: ANN401 - fresh and replace
    with run_folder(folder, asked["recipe"], **how):
        pass


def finished(folder: Path, record: object) -> None:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "modules.json").write_text("[]")
    (folder / "run.json").write_text(json.dumps(record))


def test_a_folder_with_other_things_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(IsoglossError, match=r"contains other files \(thesis.tex\)"):
        enter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"], "not even a lock"
    write_json(tmp_path / "run.json", {"status": "running"})
    enter(tmp_path)  # a run's folder, with a file of the user's in it


@pytest.mark.parametrize("name", [".lock", "work", "pairs", "metrics-nli.jsonl", ".model.partial-12345678"])
def test_what_a_killed_run_left_is_its_own(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if "." not in name[1:] and name != ".lock" else (tmp_path / name).write_text("")
    enter(tmp_path)


def changed(**training: Any) -> dict[str, Any]:  # noqa: ANN401 - settings
    recipe = ASKED["recipe"]
    return {"recipe": {**recipe, "training": recipe["training"] | training}}


def test_a_finished_model_of_other_settings_is_replaced_only_on_request(tmp_path: Path) -> None:
    finished(tmp_path, {"status": "finished", **ASKED})
    enter(tmp_path)
    enter(tmp_path, {"recipe": ASKED["recipe"] | {"output": {"folder": "y"}, "threads": 2}})
    enter(tmp_path, changed(engine="eager", checkpoint_seconds=1.0))
    with pytest.raises(IsoglossError, match=r"a finished model of other settings \(training.epochs was 3\)") as caught:
        enter(tmp_path, changed(epochs=4))
    assert "--replace" in caught.value.hint and "name another output folder" in caught.value.hint
    enter(tmp_path, changed(epochs=4), replace=True)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"status": "finished", "finetuning": {"seed": 17}}, "of another command"),
        ({"recipe": "strange"}, "of another command"),
        ([], "of another command"),
        (None, "without a record of its settings"),
    ],
)
def test_a_model_of_unknown_settings_is_not_replaced_either(tmp_path: Path, record: object, why: str) -> None:
    finished(tmp_path, record)
    if record is None:
        (tmp_path / "run.json").write_text("{")
    with pytest.raises(IsoglossError, match=f"has a finished model {why}"):
        enter(tmp_path)
    enter(tmp_path, replace=True)


def test_a_run_that_was_killed_before_its_record_was_in_place_goes_on(tmp_path: Path) -> None:
    finished(tmp_path, {"status": "running", **ASKED})
    (tmp_path / "work").mkdir()
    (tmp_path / "run.json").rename(tmp_path / "work" / "run.json")
    enter(tmp_path, record=Path("work/run.json"))
    with pytest.raises(IsoglossError, match=r"of other settings \(training.epochs was 3\)"):
        enter(tmp_path, changed(epochs=4), record=Path("work/run.json"))
    with pytest.raises(IsoglossError, match="without a record of its settings"):
        enter(tmp_path)


def test_an_unfinished_run_of_other_settings_is_not_in_the_way(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"status": "running", **ASKED})
    enter(tmp_path, changed(epochs=4))


def test_how_a_run_ended_is_in_its_record(tmp_path: Path) -> None:
    for error, status in ((KeyboardInterrupt(), "stopped"), (IsoglossError("no"), "failed")):
        write_json(tmp_path / "run.json", {"status": "running"})
        with pytest.raises(type(error)), run_folder(tmp_path, ASKED["recipe"]):
            raise error
        assert read_json(tmp_path / "run.json")["status"] == status
    write_json(tmp_path / "run.json", {"status": "refused"})
    with pytest.raises(IsoglossError), run_folder(tmp_path, ASKED["recipe"]):
        raise IsoglossError("by its gate")
    assert read_json(tmp_path / "run.json")["status"] == "refused"

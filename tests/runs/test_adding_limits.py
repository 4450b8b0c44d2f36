"""What `add` does with less than a whole run: a saved model alone, a static student; and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from additions import asked, german_recipe, record_of, snapshot, write_pairs
from isogloss.config import AddingSettings
from isogloss.errors import DataError, IsoglossError, ModelError, RecipeError
from isogloss.evaluation.leak_report import scan_of
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.runs.adding import add
from isogloss.runs.finished import open_finished
from isogloss.runs.pipeline import run
from isogloss.storage import write_json
from tiny import PAIRS, SCANNED, UNTAUGHT

GERMAN = [text for pair in PAIRS if pair.language == "de" for text in (pair.source, pair.target)]
SHORT = "training.epochs=1"


def test_a_model_alone_with_pairs_to_replay(models: Path, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run" / "model", tmp_path / "alone")
    write_pairs(tmp_path / "de.tsv", ("de",))
    alone = asked(place, "alone").replace(run=str(tmp_path / "alone"))
    with pytest.raises(RecipeError, match="so its teacher is unknown"):
        add(alone)
    alone = alone.replace(teacher=str(models / "teacher"), original=str(models / "student"))
    with pytest.raises(DataError, match="it is not known which pairs this model was trained on"):
        add(alone)
    quick = (SHORT, "device=cpu", "threads=1", "student.max_tokens=32", "cleaning.min_language=0.0")
    result = add(alone.replace(replay_from=(str(tmp_path / "de.tsv"),), replay=0.25), quick)
    assert result.details["pairs"]["replayed"] == {"de": 8} and result.details["student"]["growth"]["given"] > 20
    assert (scan_of(result.folder) or pytest.fail("no scan")).names == SCANNED
    (tmp_path / "more-de.tsv").write_text("split\ten\tde\n" + "".join(f"train\told {n}\talt {n}\n" for n in range(16)))
    both = (str(tmp_path / "de.tsv"), str(tmp_path / "more-de.tsv"))
    two = add(alone.replace(replay_from=both, replay=1.25, out=str(tmp_path / "two"), gate=100.0), quick)
    assert two.details["pairs"]["replayed"] == {"de": 40}, "pairs of both corpora are counted"
    without = asked(place, "other").replace(replay_from=(str(tmp_path / "de.tsv"),), replay=0.0, gate=100.0)
    assert add(without, [SHORT]).details["pairs"]["replayed"] == {}


def test_static_students_grow_by_averages(models: Path, place: Path, tmp_path: Path) -> None:
    fuller = Student.from_pretrained(str(models / "student"))
    table = static_student(fuller.tokenizer, 16, max_tokens=32)
    table.trim({"en": GERMAN[::2], "de": GERMAN[1::2]})
    table.save_pretrained(tmp_path / "static")
    write_pairs(tmp_path / "de.tsv", ("de",))
    settings = AddingSettings(
        run=str(tmp_path / "static"),
        languages=("ru",),
        pairs=(str(place / "pairs.tsv"),),
        out=str(tmp_path / "with-ru"),
        replay_from=(str(tmp_path / "de.tsv"),),
        gate=100.0,
        teacher=str(models / "teacher"),
        original=str(models / "student"),
    )
    result = add(settings, [SHORT, "device=cpu", "threads=1", "cleaning.min_language=0.0"])
    growth = result.details["student"]["growth"]
    assert growth["given"] == 0 and growth["averaged"] + growth["unknown"] > 20 and growth["changed"]["de"] == 0.0


def test_an_original_that_is_gone_leaves_the_vocabulary(
    models: Path, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = add(asked(place, "whole").replace(gate=100.0), [SHORT, f"student.model={tmp_path / 'gone'}"])
    assert [report.model for report in result.reports] == ["before", "after"] and result.details["student"] == {}
    assert "the vocabulary is not extended" in caplog.text and "of the tokens of ru are unknown" in caplog.text
    caplog.clear()
    add(asked(place, "teacher").replace(gate=100.0), [SHORT, f"student.model={models / 'teacher'}", f"teacher.prompt={'a '}"])
    assert "is not the model that the student's vocabulary comes from" in caplog.text
    assert "has changed since" in caplog.text


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"languages": ("de",)}, RecipeError, "de is already one of its languages: de"),
        ({"languages": ("deu",)}, RecipeError, "de is already one of its languages: de"),
        ({"languages": ("eng",)}, RecipeError, "en is the source language"),
        ({"languages": ("sw",)}, DataError, "no pairs for sw"),
        ({"run": "gone"}, ModelError, "gone: no such folder"),
        ({"run": "."}, ModelError, "neither a finished run nor a saved model"),
        ({"out": "run"}, IsoglossError, "must not change"),
        ({"out": "run/model/deep"}, IsoglossError, "must not change"),
        ({"teacher": "x"}, RecipeError, "names its teacher"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], kind: type[IsoglossError], message: str
) -> None:
    monkeypatch.chdir(place)
    before = snapshot(place / "run")
    settings = AddingSettings(run="run", languages=("ru",), pairs=("pairs.tsv",), out="refused")
    with pytest.raises(kind, match=message):
        add(settings.replace(**change))
    assert snapshot(place / "run") == before and not (place / "refused" / "model").exists()


def test_settings_and_overrides_that_cannot_be(place: Path) -> None:
    for change in ({"gate": -1.0}, {"replay": -0.5}, {"gate_on": "luck"}, {"languages": ()}, {"pairs": ()}):
        with pytest.raises(RecipeError):
            asked(place, "x").replace(**change)
    with pytest.raises(RecipeError, match="the student already has its bridge"):
        add(asked(place, "x"), ["bridge.folds=3"])
    with pytest.raises(RecipeError, match=r"training\.epochs is 0"):
        add(asked(place, "x"), ["training.epochs=0"])
    train_only = place / "train.tsv"
    train_only.write_text((place / "pairs.tsv").read_text().replace("test\t", "train\t"))
    with pytest.raises(DataError, match="no held-out pairs of ru"):
        add(asked(place, "x").replace(pairs=(str(train_only),)))


def test_runs_that_cannot_be_added_to(models: Path, place: Path, tmp_path: Path) -> None:
    finished = tmp_path / "run"
    shutil.copytree(place / "run", finished)
    settings = asked(place, "x").replace(run=str(finished), out=str(tmp_path / "out"))
    record = record_of(finished)
    write_json(finished / "run.json", record | {"status": "running"})
    with pytest.raises(ModelError, match="the run has not finished"):
        add(settings)
    (finished / "results.json").rename(finished / "kept")  # they are written at the end
    with pytest.raises(ModelError, match="the run has not finished") as unfinished:
        add(settings)
    assert "the same command" in unfinished.value.hint
    write_json(finished / "run.json", record)
    with pytest.raises(ModelError, match=r"finished, but results.json or model is missing"):
        add(settings)
    (finished / "kept").rename(finished / "results.json")
    write_json(finished / "run.json", record | {"hashes": {}})
    with pytest.raises(ModelError, match="its record is not that of a finished run"):
        add(settings)
    odd: tuple[dict[str, Any], ...] = (
        {"recipe": {"languages": "de"}},
        {"recipe": []},
        {"stores": [3]},
        {"hashes": {"pairs": 1, "teacher": "t"}},
    )
    for change in odd:
        write_json(finished / "run.json", record | change)
        with pytest.raises(ModelError, match="its record is not that of a finished run"):
            add(settings)
    (finished / "run.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read"):
        add(settings)
    write_json(finished / "run.json", record)
    assert open_finished(str(finished / "model")).stores, "its model stands for the run"
    assert not open_finished(str(finished / "model"), str(models / "teacher")).stores, "or for itself"
    manifest = finished / "pairs" / "manifest.json"
    write_json(manifest, json.loads(manifest.read_text()) | {"hash": "another"})
    shutil.move(place / "run" / "pairs", tmp_path / "aside")
    try:
        with pytest.raises(DataError, match="are gone or have changed") as gone:
            add(settings)
        assert "--replay-from" in gone.value.hint
        write_pairs(tmp_path / "ru.tsv", ("ru",))
        with pytest.raises(DataError, match="no pairs for de"):
            add(settings.replace(replay_from=(str(tmp_path / "ru.tsv"),)))
    finally:
        shutil.move(tmp_path / "aside", place / "run" / "pairs")


def test_nothing_to_replay_or_to_train_on_is_said(place: Path, tmp_path: Path) -> None:
    held = write_pairs(tmp_path / "de.tsv", ("de",))
    lines = held.read_text().replace("train\t", "test\t")
    held.write_text(lines)
    with pytest.raises(DataError, match="no pairs of ru to train on: 32 have held-out text of the old languages"):
        add(asked(place, "nothing").replace(replay_from=(str(held),)))
    held.write_text(lines.replace("the ", "an old ").replace("a child", "a girl").replace("my friend", "his friend"))
    with pytest.raises(DataError, match="there are no training pairs of de to replay"):
        add(asked(place, "nothing").replace(replay_from=(str(held),)))


def test_a_run_without_a_teacher_gets_a_language_without_one(models: Path, place: Path) -> None:
    german = german_recipe(models, place / "pairs.tsv", place / "ranked", *UNTAUGHT, "training.epochs=2")
    run(german)
    result = add(asked(place, "ranked-ru").replace(run=str(place / "ranked"), gate=100.0))
    assert [report.model for report in result.reports] == ["before", "grown", "after"]
    assert result.details["gate"]["measure"] == "to_source" and record_of(result.folder)["hashes"]["teacher"] == ""
    assert result.reports[-1].average().teacher_index is None and "taught" not in (result.model / "README.md").read_text()

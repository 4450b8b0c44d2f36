"""A language more for a finished student, on tiny models: what it gains, what the old ones keep, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from additions import german_recipe, record_of, snapshot, write_pairs
from isogloss.config import AddingSettings
from isogloss.corpora.store import open_store
from isogloss.encode.encoder import SentenceEncoder, load
from isogloss.errors import DataError, IsoglossError, ModelError, RecipeError
from isogloss.evaluation.alignment import evaluate
from isogloss.evaluation.leaks import scan_of
from isogloss.export.folder import save
from isogloss.progress import Step
from isogloss.runs.adding import Refused, add, recipe_of
from isogloss.runs.finished import open_finished
from isogloss.runs.pipeline import RunResult, run
from isogloss.runs.vocabulary import grow_for, growth_in_words
from isogloss.storage import write_json
from isogloss.students.static import static_student
from isogloss.students.student import Student
from isogloss.types import Bitext, LanguageScores
from tiny import PAIRS, UNTAUGHT

GERMAN = [text for pair in PAIRS if pair.language == "de" for text in (pair.source, pair.target)]
RUSSIAN = [pair.target for pair in PAIRS if pair.language == "ru"]
SHORT = "training.epochs=1"
DESTRUCTIVE = ("training.learning_rate=0.3", "training.warmup=0.0", "training.epochs=2")


@pytest.fixture(scope="module")
def place(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pairs.tsv`, a finished run in German, and that run with Russian added, uninterrupted."""
    folder = tmp_path_factory.mktemp("adding")
    run(german_recipe(models, write_pairs(folder / "pairs.tsv"), folder / "run"))
    return folder


@pytest.fixture(scope="module")
def added(place: Path) -> RunResult:
    before = snapshot(place / "run")
    result = add(replace(asked(place, "with-ru"), gate=25.0))  # two of its eight sentences
    after = snapshot(place / "run")
    assert {name: after[name] for name in before} == before, "the finished run is never changed"
    assert all(name.startswith("cache/") for name in set(after) - set(before)), "but for the cache that they share"
    return result


def asked(place: Path, out: str, *languages: str) -> AddingSettings:
    tsv = place / "pairs.tsv"
    return AddingSettings(run=str(place / "run"), languages=languages or ("ru",), pairs=(str(tsv),), out=str(place / out))


def scores(result: RunResult, stage: str) -> dict[str, LanguageScores]:
    return {score.language: score for report in result.reports if report.model == stage for score in report.scores}


# ── what is added ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_new_language_is_learnt_and_the_old_one_kept(place: Path, added: RunResult) -> None:
    before, after = scores(added, "before"), scores(added, "after")
    assert [report.model for report in added.reports] == ["before", "grown", "after"]
    assert (after["ru"].teacher_index or 0) >= (before["ru"].teacher_index or 0) + 0.25
    assert (after["ru"].cosine or 0) > (before["ru"].cosine or 0) + 0.02
    assert (after["de"].teacher_index or 0) >= (before["de"].teacher_index or 0) - 0.25
    finished = json.loads((place / "run" / "results.json").read_text())["stages"]["distilled"]["languages"]["de"]
    assert before["de"].teacher_index == finished["teacher_index"], "the questions are those of the finished run"
    assert added.details["pairs"] == {
        **{"train": 32, "test": 8, "source_only": 0, "touched_held_out": 0},
        "replayed": {"de": 32},
    }
    assert added.details["gate"]["measure"] == "teacher_index" and not added.details["gate"]["refused"]


def test_the_reported_scores_are_those_of_the_saved_model(models: Path, place: Path, added: RunResult) -> None:
    saved = evaluate(load(str(added.folder)), load(str(models / "teacher")), open_store(added.folder / "pairs").bitext())
    assert saved.scores[0].teacher_index == scores(added, "after")["ru"].teacher_index
    assert saved.scores[0].cosine == pytest.approx(scores(added, "after")["ru"].cosine, abs=1e-3)
    assert SentenceTransformer(str(added.model), device="cpu").tokenizer.tokenize("кошка") == ["▁кошка"]


def test_it_leaves_a_record_results_and_a_card(place: Path, added: RunResult) -> None:
    record, results = record_of(added.folder), json.loads((added.folder / "results.json").read_text())
    assert record["status"] == "finished" and set(record["hashes"]) == {"pairs", "teacher", "student", "weights"}
    assert record["recipe"]["languages"] == ["de", "ru"] and not record["recipe"]["bridge"]["enabled"]
    assert record["adding"]["languages"] == ["ru"] and "distil" in record["seconds"]
    assert [store["folder"] for store in record["stores"]] == ["../run/pairs", "pairs"]
    assert set(results["stages"]) == {"before", "grown", "after"} and results["added"] == ["ru"]
    growth = results["student"]["growth"]
    assert growth["changed"] == {"de": 0.0, "en": 0.0} and growth["given"] == growth["rows_after"] - growth["rows_before"] > 20
    card = (added.model / "README.md").read_text(encoding="utf-8")
    assert (
        '- "ru"' in card and '- "de"' in card and f"| {record['finished'][:10]} | ru | 32 | 32 | vocabulary, weights |" in card
    )
    assert (scan_of(added.folder) or pytest.fail("no scan")).names == ("phrasebook (test)",)
    assert (added.folder / "metrics.jsonl").is_file() and not (added.folder / "work" / "candidate").exists()


def test_growing_alone_changes_no_old_vector(models: Path, place: Path) -> None:
    recipe = german_recipe(models, place / "pairs.tsv", place / "unused")
    student = Student.load(str(place / "run"), max_tokens=32, device="cpu")
    old, rows, new = student.encode(GERMAN), len(student.table), student.encode(RUSSIAN)
    pairs = Bitext.of(PAIRS)
    growth = grow_for(student, pairs, pairs, replace(recipe, languages=("ru",)), load(str(models / "teacher")))
    assert growth is not None and growth.rows_before == rows < len(student.table)
    assert np.array_equal(student.encode(GERMAN), old)
    assert not np.allclose(student.encode(RUSSIAN), new, atol=1e-3)
    original = Student.load(str(models / "student"), device="cpu").tokenizer
    assert all(student.tokenizer.tokenize(text) == original.tokenize(text) for text in RUSSIAN)
    assert "cut as before" in growth_in_words(growth.as_dict())
    told = growth_in_words(growth.as_dict() | {"changed": {"de": 0.5, "en": 0.25}})
    assert told.endswith("up to 50.0 % of old text (de) is cut otherwise")
    again = grow_for(student, pairs, pairs, replace(recipe, languages=("ru",)), load(str(models / "teacher")))
    assert again is None, "nothing is missing now"


def test_languages_are_added_one_after_the_other(place: Path, added: RunResult) -> None:
    write_pairs(place / "bg.tsv", ("bg",))
    more = AddingSettings(run=str(added.folder), languages=("bul",), pairs=(str(place / "bg.tsv"),), out=str(place / "all"))
    result = add(replace(more, replay=0.5, gate=None), [SHORT])
    assert result.details["pairs"]["replayed"] == {"de": 8, "ru": 8}
    record = record_of(result.folder)
    assert [store["languages"] for store in record["stores"]] == [["de"], ["ru"], ["bg"]]
    assert record["recipe"]["languages"] == ["de", "ru", "bg"]
    card = (result.model / "README.md").read_text(encoding="utf-8")
    assert "| ru | 32 | 32 | vocabulary, weights |" in card and "| bg | 32 | 16 |" in card
    assert set(json.loads((result.model / "isogloss_training.json").read_text())["languages"]) >= {"de", "ru", "bg"}
    with pytest.raises(RecipeError, match="ru is one of its languages already: de, ru, bg"):
        add(replace(more, run=str(result.folder), languages=("ru",)))


def test_the_new_language_is_told_to_files_that_do_not_name_one(place: Path, tmp_path: Path) -> None:
    lines = [line.split("\t") for line in (place / "pairs.tsv").read_text().splitlines()[1:]]
    for name, column in (("plain.tsv", 3), ("en-ru.tsv", 3), ("en-de.tsv", 2)):
        (tmp_path / name).write_text("".join(f"{line[1]}\t{line[column]}\n" for line in lines))
    finished = open_finished(str(place / "run"))
    for files, told in ((("plain.tsv", "en-ru.tsv"), "ru"), (("en-ru.tsv", "en-de.tsv"), "")):
        settings = replace(asked(place, "x"), pairs=tuple(str(tmp_path / name) for name in files))
        assert recipe_of(finished, settings).pairs.language == told
        assert recipe_of(finished, replace(settings, languages=("ru", "sw"))).pairs.language == ""


def test_all_else_is_as_in_the_recipe_of_the_run(models: Path, place: Path) -> None:
    finished, settings = open_finished(str(place / "run")), asked(place, "x")
    old, new = german_recipe(models, place / "pairs.tsv", place / "run"), recipe_of(finished, settings)
    for same in ("seed", "device", "threads", "cleaning", "leaks", "teacher", "student", "objectives", "evaluation"):
        assert getattr(new, same) == getattr(old, same)
    assert new.training == replace(old.training, select="both") and not new.bridge.enabled
    assert new.output.folder == str(place / "x") and new.output.cache == old.output.cache
    assert recipe_of(finished, settings, ["training.select=retrieval", "seed=3"]).training.select == "retrieval"
    uneven = replace(finished, recipe=finished.recipe | {"balance": {"scheme": "languages"}, "training": {"select": "mse"}})
    assert recipe_of(uneven, settings).balance.scheme == "everything" and recipe_of(uneven, settings).training.select == "mse"


# ── the gate ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_teacher_computes_as_the_recipe_says(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def watched(*arguments: Any) -> SentenceEncoder:  # noqa: ANN401 - those of `load`
        opened.append(load(*arguments))
        return opened[-1]

    monkeypatch.setattr("isogloss.runs.adding.load", watched)
    add(replace(asked(place, "precise"), gate=None), [SHORT, "teacher.precision=float32"])
    assert [teacher.precision for teacher in opened] == ["float32"]


def test_the_gate_refuses_and_leaves_everything_as_it_was(place: Path, added: RunResult) -> None:
    shutil.copytree(added.folder, place / "kept")
    outside = ("work/", "pairs/", ".lock")
    before = {name: told for name, told in snapshot(place / "kept").items() if not name.startswith(outside)}
    finished = snapshot(place / "run" / "model")
    with pytest.raises(Refused, match=r"de lost \d+\.\d points .* more than the 1 allowed: ru not added") as caught:
        add(asked(place, "kept"), DESTRUCTIVE, replace=True)
    after = {name: told for name, told in snapshot(place / "kept").items() if not name.startswith(outside)}
    assert after == before and snapshot(place / "run" / "model") == finished
    candidate = place / "kept" / "work" / "candidate"
    assert caught.value.result.folder == candidate and str(candidate) in caught.value.hint
    assert load(str(candidate)).encode(["кошка спит ночью."]).shape == (1, 16)
    refused = record_of(candidate)
    assert refused["status"] == "refused"
    assert json.loads((candidate / "results.json").read_text())["gate"]["lost"]["de"] > 1
    with pytest.raises(ModelError, match="was refused by its gate"):
        open_finished(str(candidate))
    steps: list[Step] = []
    taken = add(replace(asked(place, "kept"), gate=None), DESTRUCTIVE, steps.append, replace=True)
    assert "reused: training was finished" in {step.note for step in steps}, "it is not trained again"
    assert taken.folder == place / "kept" and not candidate.exists()
    assert record_of(place / "kept")["hashes"]["weights"] != record_of(added.folder)["hashes"]["weights"]


def test_killed_after_its_model_was_saved_it_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(asked(place, "saved"), gate=None)

    def stop(_folder: Path) -> str:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("isogloss.runs.adding.weights_hash", stop)
        with pytest.raises(Stop):
            add(settings, [SHORT])
    assert (place / "saved" / "model").exists() and not (place / "saved" / "run.json").exists()
    assert record_of(add(settings, [SHORT]).folder)["status"] == "finished"


def test_a_refusal_in_a_new_folder_leaves_no_model(place: Path) -> None:
    with pytest.raises(Refused):
        add(asked(place, "new"), DESTRUCTIVE)
    assert not (place / "new" / "model").exists() and not (place / "new" / "results.json").exists()
    with pytest.raises(ModelError, match="the run has not finished"):
        open_finished(str(place / "new"))


# ── going on after an interruption ──────────────────────────────────────────────────────────────────────────────────────


class Stop(Exception):
    """Whatever ends a process."""


def test_interrupted_it_continues_to_the_same_weights(place: Path) -> None:
    how = ("training.epochs=3", "training.checkpoint_seconds=0.0")
    whole = add(replace(asked(place, "uncut"), gate=None), how)
    cut = replace(asked(place, "cut"), gate=None)
    for stage, count in (("replay", 1), ("finished student", 1), ("tokens", 2), ("distil", 5), ("distilled student", 1)):
        seen: list[Step] = []

        def stop(step: Step, stage: str = stage, count: int = count, seen: list[Step] = seen) -> None:
            seen.extend([step] if step.stage == stage else [])
            if len(seen) >= count:
                raise Stop

        with pytest.raises(Stop):
            add(cut, how, stop)
        assert not (place / "cut" / "model").exists() and not (place / "cut" / "run.json").exists()
    assert record_of(place / "cut" / "work" / "candidate")["status"] == "failed"
    steps: list[Step] = []
    result = add(cut, how, steps.append)
    assert record_of(result.folder)["hashes"] == record_of(whole.folder)["hashes"]
    reused = {step.stage for step in steps if "reused" in step.note}
    assert reused >= {"replay", "finished student", "grown student", "teacher", "tokens", "distil"}
    logged = [json.loads(line)["step"] for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert logged == sorted(set(logged)) and logged[-1] == result.details["training"]["steps"]
    assert scores(result, "after") == scores(whole, "after")


# ── a saved model without a run, and what cannot be done ────────────────────────────────────────────────────────────────


def test_a_model_alone_with_pairs_to_replay(models: Path, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run" / "model", tmp_path / "alone")
    write_pairs(tmp_path / "de.tsv", ("de",))
    alone = replace(asked(place, "alone"), run=str(tmp_path / "alone"))
    with pytest.raises(RecipeError, match="nobody knows by whom it was taught"):
        add(alone)
    alone = replace(alone, teacher=str(models / "teacher"), original=str(models / "student"))
    with pytest.raises(DataError, match="nobody knows which pairs this model learnt from"):
        add(alone)
    quick = (SHORT, "device=cpu", "threads=1", "student.max_tokens=32", "cleaning.min_language=0.0")
    result = add(replace(alone, replay_from=(str(tmp_path / "de.tsv"),), replay=0.25), quick)
    assert result.details["pairs"]["replayed"] == {"de": 8} and result.details["student"]["growth"]["given"] > 20
    assert (scan_of(result.folder) or pytest.fail("no scan")).names == ("phrasebook (test)",)
    without = replace(asked(place, "other"), replay_from=(str(tmp_path / "de.tsv"),), replay=0.0, gate=None)
    assert add(without, [SHORT]).details["pairs"]["replayed"] == {}


def test_static_students_grow_by_averages(models: Path, place: Path, tmp_path: Path) -> None:
    fuller = Student.load(str(models / "student"))
    table = static_student(fuller.tokenizer, 16, max_tokens=32)
    table.trim({"en": GERMAN[::2], "de": GERMAN[1::2]})
    save(table, tmp_path / "static")
    write_pairs(tmp_path / "de.tsv", ("de",))
    settings = AddingSettings(
        run=str(tmp_path / "static"),
        languages=("ru",),
        pairs=(str(place / "pairs.tsv"),),
        out=str(tmp_path / "with-ru"),
        replay_from=(str(tmp_path / "de.tsv"),),
        gate=None,
        teacher=str(models / "teacher"),
        original=str(models / "student"),
    )
    result = add(settings, [SHORT, "device=cpu", "threads=1", "cleaning.min_language=0.0"])
    growth = result.details["student"]["growth"]
    assert growth["given"] == 0 and growth["averaged"] + growth["unknown"] > 20 and growth["changed"]["de"] == 0.0


def test_an_original_that_is_gone_leaves_the_vocabulary(
    models: Path, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = add(replace(asked(place, "whole"), gate=None), [SHORT, f"student.model={tmp_path / 'gone'}"])
    assert [report.model for report in result.reports] == ["before", "after"] and result.details["student"] == {}
    assert "the vocabulary stays as it is" in caplog.text and "of the tokens of ru are unknown" in caplog.text
    caplog.clear()
    add(replace(asked(place, "teacher"), gate=None), [SHORT, f"student.model={models / 'teacher'}", f"teacher.prompt={'a '}"])
    assert "is not the model that the student's vocabulary comes from" in caplog.text
    assert "is not as it was when" in caplog.text


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"languages": ("de",)}, RecipeError, "de is one of its languages already: de"),
        ({"languages": ("deu",)}, RecipeError, "de is one of its languages already: de"),
        ({"languages": ("eng",)}, RecipeError, "en is the source language"),
        ({"languages": ("sw",)}, DataError, "no pairs for sw"),
        ({"run": "gone"}, ModelError, "gone: no such folder"),
        ({"run": "."}, ModelError, "neither a finished run nor a saved model"),
        ({"out": "run"}, IsoglossError, "is never changed"),
        ({"out": "run/model/deep"}, IsoglossError, "is never changed"),
        ({"teacher": "x"}, RecipeError, "a run knows its teacher"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], kind: type[IsoglossError], message: str
) -> None:
    monkeypatch.chdir(place)
    before = snapshot(place / "run")
    settings = AddingSettings(run="run", languages=("ru",), pairs=("pairs.tsv",), out="refused")
    with pytest.raises(kind, match=message):
        add(replace(settings, **change))  # type: ignore[arg-type]
    assert snapshot(place / "run") == before and not (place / "refused" / "model").exists()


def test_settings_and_overrides_that_cannot_be(place: Path) -> None:
    for change in ({"gate": -1.0}, {"replay": -0.5}, {"gate_on": "luck"}, {"languages": ()}, {"pairs": ()}):
        with pytest.raises(RecipeError):
            replace(asked(place, "x"), **change)
    with pytest.raises(RecipeError, match="the student has its bridge already"):
        add(asked(place, "x"), ["bridge.folds=3"])
    with pytest.raises(RecipeError, match=r"training\.epochs = 0"):
        add(asked(place, "x"), ["training.epochs=0"])
    train_only = place / "train.tsv"
    train_only.write_text((place / "pairs.tsv").read_text().replace("test\t", "train\t"))
    with pytest.raises(DataError, match="no held-out pairs of ru"):
        add(replace(asked(place, "x"), pairs=(str(train_only),)))


def test_runs_that_cannot_be_added_to(models: Path, place: Path, tmp_path: Path) -> None:
    finished = tmp_path / "run"
    shutil.copytree(place / "run", finished)
    settings = replace(asked(place, "x"), run=str(finished), out=str(tmp_path / "out"))
    record = record_of(finished)
    write_json(finished / "run.json", record | {"status": "running"})
    with pytest.raises(ModelError, match="the run has not finished"):
        add(settings)
    (finished / "results.json").rename(finished / "kept")  # they are written at the end
    with pytest.raises(ModelError, match="the run has not finished") as unfinished:
        add(settings)
    assert "the same command" in unfinished.value.hint
    write_json(finished / "run.json", record)
    with pytest.raises(ModelError, match=r"finished, but its results.json or its model is gone"):
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
            add(replace(settings, replay_from=(str(tmp_path / "ru.tsv"),)))
    finally:
        shutil.move(tmp_path / "aside", place / "run" / "pairs")


def test_nothing_to_replay_or_to_train_on_is_said(place: Path, tmp_path: Path) -> None:
    held = write_pairs(tmp_path / "de.tsv", ("de",))
    lines = held.read_text().replace("train\t", "test\t")
    held.write_text(lines)
    with pytest.raises(DataError, match="no pairs of ru to train on: 32 have held-out text of the old languages"):
        add(replace(asked(place, "nothing"), replay_from=(str(held),)))
    held.write_text(lines.replace("the ", "an old ").replace("a child", "a girl").replace("my friend", "his friend"))
    with pytest.raises(DataError, match="there are no training pairs of de to replay"):
        add(replace(asked(place, "nothing"), replay_from=(str(held),)))


def test_a_run_without_a_teacher_gets_a_language_without_one(models: Path, place: Path) -> None:
    german = german_recipe(models, place / "pairs.tsv", place / "ranked", *UNTAUGHT, "training.epochs=2")
    run(german)
    result = add(replace(asked(place, "ranked-ru"), run=str(place / "ranked"), gate=None))
    assert [report.model for report in result.reports] == ["before", "grown", "after"]
    assert result.details["gate"]["measure"] == "to_source" and record_of(result.folder)["hashes"]["teacher"] == ""
    assert result.reports[-1].average().teacher_index is None and "taught" not in (result.model / "README.md").read_text()

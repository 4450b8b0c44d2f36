"""A language more for a finished student, on tiny models: what it gains, what the old ones keep, and what is refused."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from additions import asked, german_recipe, record_of, snapshot, write_pairs
from isogloss.config import AddingSettings, Recipe
from isogloss.corpora.store import open_store
from isogloss.errors import ModelError, RecipeError
from isogloss.evaluation.alignment import evaluate
from isogloss.evaluation.leak_report import scan_of
from isogloss.models.encoder import Encoder, SentenceEncoder, load
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step
from isogloss.runs.adding import Refused, add, recipe_of
from isogloss.runs.finished import open_finished
from isogloss.runs.models import open_teacher
from isogloss.runs.run import RunResult
from isogloss.runs.vocabulary import grow_for, growth_in_words
from isogloss.types import Bitext, LanguageScores
from tiny import PAIRS, SCANNED

GERMAN = [text for pair in PAIRS if pair.language == "de" for text in (pair.source, pair.target)]
RUSSIAN = [pair.target for pair in PAIRS if pair.language == "ru"]
SHORT = "training.epochs=1"
DESTRUCTIVE = ("training.learning_rate=0.3", "training.warmup=0.0", "training.epochs=2")


@pytest.fixture(scope="module")
def added(place: Path) -> RunResult:
    before = snapshot(place / "run")
    result = add(asked(place, "with-ru").replace(gate=25.0))  # two of its eight sentences
    after = snapshot(place / "run")
    assert {name: after[name] for name in before} == before, "the finished run is never changed"
    assert all(name.startswith("cache/") for name in set(after) - set(before)), "but for the cache that they share"
    return result


def scores(result: RunResult, stage: str) -> dict[str, LanguageScores]:
    return {score.language: score for report in result.reports if report.model == stage for score in report.scores}


# ── what is added ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_new_language_is_learnt_and_the_old_one_kept(place: Path, added: RunResult) -> None:
    before, after = scores(added, "before"), scores(added, "after")
    assert [report.model for report in added.reports] == ["before", "grown", "after"]
    assert (after["ru"].teacher_index or 0) >= (before["ru"].teacher_index or 0) + 0.25
    assert (after["ru"].cosine or 0) > (before["ru"].cosine or 0) + 0.02
    assert (after["de"].teacher_index or 0) >= (before["de"].teacher_index or 0) - 0.25
    finished = json.loads((place / "run" / "results.json").read_text())["stages"]["distill"]["languages"]["de"]
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
    assert record["recipe"]["add"]["run"] == str(place / "run") and "distill" in record["seconds"]
    assert [store["folder"] for store in record["stores"]] == ["../run/pairs", "pairs"]
    assert set(results["stages"]) == {"before", "grown", "after"} and results["added"] == ["ru"]
    growth = results["student"]["growth"]
    assert growth["changed"] == {"de": 0.0, "en": 0.0} and growth["given"] == growth["rows_after"] - growth["rows_before"] > 20
    card = (added.model / "README.md").read_text(encoding="utf-8")
    assert (
        "- ru\n" in card and "- de\n" in card and f"| {record['finished'][:10]} | ru | 32 | 32 | vocabulary, weights |" in card
    )
    assert (scan_of(added.folder) or pytest.fail("no scan")).names == SCANNED
    assert (added.folder / "metrics.jsonl").is_file() and not (added.folder / "work" / "candidate").exists()


def test_what_a_language_lost_against_the_student_before_is_in_the_results(added: RunResult) -> None:
    lost = {(one["language"], one["score"]) for one in added.details["regressions"] if one["language"] != "average"}
    before, after = scores(added, "before"), scores(added, "after")
    smallest = {"teacher_index": 1e-9, "to_source": 1e-9, "from_source": 1e-9, "cosine": 0.005}
    assert lost == {
        (language, name)
        for language in before
        for name, least in smallest.items()
        if getattr(before[language], name) - getattr(after[language], name) > least
    }
    assert {one["stage"] for one in added.details["regressions"]} <= {"the student before"} and added.training is not None
    assert bool(lost) == ("the student before" in added.training.setback)


def test_growing_alone_changes_no_old_vector(models: Path, place: Path) -> None:
    recipe = german_recipe(models, place / "pairs.tsv", place / "unused")
    student = Student.from_pretrained(str(place / "run"), max_tokens=32, device="cpu")
    old, rows, new = student.encode(GERMAN), len(student.table), student.encode(RUSSIAN)
    pairs = Bitext.of(PAIRS)
    growth = grow_for(student, pairs, pairs, recipe.replace(languages=("ru",)), load(str(models / "teacher")))
    assert growth is not None and growth.rows_before == rows < len(student.table)
    assert np.array_equal(student.encode(GERMAN), old)
    assert not np.allclose(student.encode(RUSSIAN), new, atol=1e-3)
    original = Student.from_pretrained(str(models / "student"), device="cpu").tokenizer
    assert all(student.tokenizer.tokenize(text) == original.tokenize(text) for text in RUSSIAN)
    assert "tokenized as before" in growth_in_words(asdict(growth))
    told = growth_in_words(asdict(growth) | {"changed": {"de": 0.5, "en": 0.25}})
    assert told.endswith("up to 50.0 % of existing text (de) is now tokenized differently")
    again = grow_for(student, pairs, pairs, recipe.replace(languages=("ru",)), load(str(models / "teacher")))
    assert again is None, "nothing is missing now"


def test_languages_are_added_one_after_the_other(place: Path, added: RunResult) -> None:
    write_pairs(place / "bg.tsv", ("bg",))
    more = AddingSettings(run=str(added.folder), languages=("bul",), pairs=(str(place / "bg.tsv"),), out=str(place / "all"))
    result = add(more.replace(replay=0.5, gate=100.0), [SHORT])
    assert result.details["pairs"]["replayed"] == {"de": 8, "ru": 8}
    record = record_of(result.folder)
    assert [store["languages"] for store in record["stores"]] == [["de"], ["ru"], ["bg"]]
    assert record["recipe"]["languages"] == ["de", "ru", "bg"]
    card = (result.model / "README.md").read_text(encoding="utf-8")
    assert "| ru | 32 | 32 | vocabulary, weights |" in card and "| bg | 32 | 16 |" in card
    assert set(json.loads((result.model / "isogloss_training.json").read_text())["languages"]) >= {"de", "ru", "bg"}
    with pytest.raises(RecipeError, match="ru is already one of its languages: de, ru, bg"):
        add(more.replace(run=str(result.folder), languages=("ru",)))


def test_the_new_language_is_told_to_files_that_do_not_name_one(place: Path, tmp_path: Path) -> None:
    lines = [line.split("\t") for line in (place / "pairs.tsv").read_text().splitlines()[1:]]
    for name, column in (("plain.tsv", 3), ("en-ru.tsv", 3), ("en-de.tsv", 2)):
        (tmp_path / name).write_text("".join(f"{line[1]}\t{line[column]}\n" for line in lines))
    finished = open_finished(str(place / "run"))
    for files, told in ((("plain.tsv", "en-ru.tsv"), "ru"), (("en-ru.tsv", "en-de.tsv"), "")):
        settings = asked(place, "x").replace(pairs=tuple(str(tmp_path / name) for name in files))
        assert recipe_of(finished, settings).pairs.language == told
        assert recipe_of(finished, settings.replace(languages=("ru", "sw"))).pairs.language == ""


def test_all_else_is_as_in_the_recipe_of_the_run(models: Path, place: Path) -> None:
    finished, settings = open_finished(str(place / "run")), asked(place, "x")
    old, new = german_recipe(models, place / "pairs.tsv", place / "run"), recipe_of(finished, settings)
    for same in ("seed", "device", "threads", "cleaning", "leaks", "teacher", "student", "losses", "evaluation"):
        assert getattr(new, same) == getattr(old, same)
    assert new.training == old.training.replace(select="both") and not new.bridge.enabled
    assert new.output.folder == str(place / "x") and new.output.cache == old.output.cache
    assert recipe_of(finished, settings, ["training.select=retrieval", "seed=3"]).training.select == "retrieval"
    uneven = replace(finished, recipe=finished.recipe | {"balance": {"scheme": "languages"}, "training": {"select": "mse"}})
    assert recipe_of(uneven, settings).balance.scheme == "everything" and recipe_of(uneven, settings).training.select == "mse"


# ── the gate ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_teacher_computes_as_the_recipe_says(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def watched(recipe: Recipe, on_progress: OnProgress) -> Encoder | None:
        opened.append(open_teacher(recipe, on_progress))
        return opened[-1]

    monkeypatch.setattr("isogloss.runs.adding.open_teacher", watched)
    add(asked(place, "precise").replace(gate=100.0), [SHORT, "teacher.precision=float32"])
    assert [teacher.precision for teacher in opened if isinstance(teacher, SentenceEncoder)] == ["float32"]


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
    with pytest.raises(ModelError, match="the gate refused this run"):
        open_finished(str(candidate))
    steps: list[Step] = []
    taken = add(asked(place, "kept").replace(gate=100.0), DESTRUCTIVE, steps.append, replace=True)
    assert "reused: training was finished" in {step.note for step in steps}, "it is not trained again"
    assert taken.folder == place / "kept" and not candidate.exists()
    assert record_of(place / "kept")["hashes"]["weights"] != record_of(added.folder)["hashes"]["weights"]


def test_killed_after_its_model_was_saved_it_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = asked(place, "saved").replace(gate=100.0)

    def stop(_folder: Path) -> str:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("isogloss.runs.run.weights_hash", stop)
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
    whole = add(asked(place, "uncut").replace(gate=100.0), how)
    cut = asked(place, "cut").replace(gate=100.0)
    for stage, count in (("replay", 1), ("before student", 1), ("tokens", 2), ("distill", 5), ("distilled student", 1)):
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
    assert reused >= {"before student", "grown student", "teacher", "tokens", "distill"}
    logged = [json.loads(line)["step"] for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert logged == sorted(set(logged)) and logged[-1] == (result.training or pytest.fail("no training")).steps
    assert scores(result, "after") == scores(whole, "after")

"""The doctor finds what would go wrong, and says what to change."""

from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.config import as_dict
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.runs import doctor
from isogloss.runs.doctor import Finding, examine_machine, examine_recipe, most_steps
from isogloss.runs.presets import finetune_recipe
from isogloss.training.distillation import Distillation
from isogloss.types import Bitext
from judged import write_judged
from tiny import UNTAUGHT, tiny_recipe


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings}


def test_a_healthy_machine_and_recipe(models: Path, tsv: Path, tmp_path: Path) -> None:
    machine = by_name(examine_machine())
    assert machine["versions"].verdict == "good" and "torch" in machine["versions"].text
    found = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path)))
    assert found["pairs"].text == "64 pairs to train on, 16 held out, 2 languages"
    assert "16-d, unit-norm, mean pooling" in found["teacher"].text
    assert "24-d, mean pooling" in found["student"].text
    assert set(found) == {"disk of the run", "cache", "pairs", "teacher", "student", "de", "en", "ru"}
    assert all(finding.verdict == "good" for name, finding in found.items() if name not in ("de", "ru"))
    assert "0.00 % unknown" in found["ru"].text


def test_every_language_has_its_counts_and_starved_ones_a_word(
    monkeypatch: pytest.MonkeyPatch, models: Path, bitext: Bitext, tmp_path: Path
) -> None:
    counts = {"de": (9, 4), "fr": (4, 1), "it": (7, 1), "nl": (2, 0), "ru": (0, 3)}
    known = iter([f"{pair.source}\t{pair.target}" for pair in bitext.where(language="de")])
    lines = [
        f"{next(known)}\t{language}\t{split}"
        for language, sizes in counts.items()
        for split, size in zip(("train", "test"), sizes, strict=True)
        for _ in range(size)
    ]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(["source\ttarget\tlanguage\tsplit", *lines]) + "\n", encoding="utf-8")
    monkeypatch.setattr(doctor, "FEW_TRAINING_PAIRS", 5)
    monkeypatch.setattr(doctor, "FEW_HELD_OUT", 2)
    lenient = ("cleaning.min_language=0", "cleaning.min_script=0", "leaks.level=off")
    found = by_name(examine_recipe(tiny_recipe(models, path, tmp_path, *lenient)))
    for language, (train, test) in counts.items():
        assert found[language].text.startswith(f"{train} to train on, {test} held out"), found[language]
    verdicts = {language: found[language].verdict for language in counts}
    assert verdicts == {"de": "good", "fr": "note", "it": "note", "nl": "note", "ru": "bad"}
    assert "few pairs to learn from" in found["fr"].advice and "rough" in found["it"].advice
    assert "not measured" in found["nl"].advice and "nothing to learn it from" in found["ru"].advice


def test_a_recipe_without_a_teacher(models: Path, tsv: Path, tmp_path: Path) -> None:
    found = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, *UNTAUGHT)))
    assert found["teacher"].text == "none, and no loss needs one"
    assert all(finding.verdict != "bad" for finding in found.values())


def test_a_full_disk_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 2**20}))
    assert by_name(examine_machine())["disk"].verdict == "bad"


def test_missing_pairs_and_models(models: Path, tsv: Path, tmp_path: Path) -> None:
    pairs = by_name(examine_recipe(tiny_recipe(models, tmp_path / "gone.tsv", tmp_path)))["pairs"]
    assert pairs.verdict == "bad" and "no such file" in pairs.text
    found = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, "teacher.model=./gone")))
    assert found["models"].verdict == "bad"


def test_dimensions_without_a_bridge(models: Path, tsv: Path, tmp_path: Path) -> None:
    student = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, "bridge.enabled=false")))["student"]
    assert student.verdict == "bad" and "bridge.enabled = true" in student.advice


def test_prompts_nobody_set(models: Path, tsv: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(models / "teacher"), prompts={"query": "query: "})
    model.save(str(tmp_path / "prompted"), create_model_card=False)
    teacher = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, f"teacher.model={tmp_path / 'prompted'}")))["teacher"]
    assert teacher.verdict == "note" and "query = 'query: '" in teacher.advice


def test_a_script_the_student_cannot_read(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "en-ka.tsv"
    path.write_text("".join(f"the cat number {n}.\tკატა ნომერი {n}.\n" for n in range(30)), encoding="utf-8")
    found = by_name(examine_recipe(tiny_recipe(models, path, tmp_path)))
    assert found["ka"].verdict == "bad" and "another student" in found["ka"].advice


def test_long_sentences_are_cut(models: Path, tsv: Path, tmp_path: Path) -> None:
    found = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, "student.max_tokens=4")))
    assert found["de"].verdict == "note" and "max_tokens" in found["de"].advice


def test_nothing_held_out(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "en-de.tsv"
    path.write_text("".join(f"the cat {n}.\tdie Katze {n}.\n" for n in range(30)), encoding="utf-8")
    found = by_name(examine_recipe(tiny_recipe(models, path, tmp_path, "pairs.held_out=0")))
    assert found["pairs"].verdict == "bad"


def test_too_many_layers(models: Path, tsv: Path, tmp_path: Path) -> None:
    student = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, "training.train_layers=9")))["student"]
    assert student.verdict == "bad" and "set it to 1 to 3" in student.advice


def test_settings_that_change_nothing(models: Path, tsv: Path, tmp_path: Path) -> None:
    odd = ("training.warmup=500", "training.select=mse", "losses.mse=0", "losses.moving_teacher=1")
    found = [one for one in examine_recipe(tiny_recipe(models, tsv, tmp_path, *odd)) if one.about == "settings"]
    assert [one.verdict for one in found] == ["note", "note"] and all(one.advice for one in found)
    assert 'training.select = "mse"' in found[0].text and "500 steps, but training has 12" in found[1].text


def test_steps_are_those_of_the_training(models: Path, bitext: Bitext, tsv: Path, tmp_path: Path) -> None:
    for more in (("training.epochs=2",), ("balance.scheme=languages", "balance.pairs_per_epoch=50"), ("balance.group=source",)):
        recipe = tiny_recipe(models, tsv, tmp_path, "training.dev_pairs=0", "training.train_layers=0", *more)
        student = Student.from_pretrained(str(models / "student"), device="cpu")
        session = Distillation(student, load(str(models / "teacher"), device="cpu"), bitext, recipe)
        assert most_steps(bitext, recipe) == session._schedule().steps


def test_each_stage_is_checked_with_its_own_settings(models: Path, tsv: Path, tmp_path: Path) -> None:
    data = as_dict(tiny_recipe(models, tsv, tmp_path, "training.train_layers=0"))
    first = {"task": "distill", "name": "first"}
    warm = {"task": "distill", "name": "warm", "training": {"warmup": 10_000.0}}
    deep = {"task": "distill", "name": "deep", "training": {"train_layers": 99}}
    wide = {"task": "distill", "name": "wide", "losses": {"dimensions": [4096]}}
    for stages, stage in (([warm], ""), ([first, deep], "deep"), ([wide, first], "wide")):
        found = by_name(examine_recipe(recipes.parse(data | {"stage": [{"task": "bridge"}, *stages]})))
        assert found["student"].verdict == ("bad" if stage else "good") and found["student"].text.startswith(
            f"stage {stage}: " if stage else str(models)
        )
        assert ("stage warm" in found) is (stage == "")


def test_keys_that_a_task_does_not_use_are_named(models: Path, tsv: Path, tmp_path: Path) -> None:
    data = as_dict(tiny_recipe(models, tsv, tmp_path, "training.train_layers=0"))
    rank = {"task": "rank", "losses": {"ranking": 1.0}, "training": {"train_layers": 1, "batch_tokens": 100}}
    found = examine_recipe(recipes.parse(data | {"stage": [{"task": "distill", "training": {"train_layers": 1}}, rank]}))
    notes = [finding.text for finding in found if finding.about == "stage rank"]
    assert notes == ["training.batch_tokens is for distill stages", "training.train_layers is for distill stages"]


def test_trackers_that_are_not_known(models: Path, tsv: Path, tmp_path: Path) -> None:
    trackers = by_name(examine_recipe(tiny_recipe(models, tsv, tmp_path, "training.trackers=abacus")))["trackers"]
    assert trackers.verdict == "bad" and "abacus is not known" in trackers.text and "pip install" in trackers.advice


def test_a_recipe_without_pairs(models: Path, tmp_path: Path) -> None:
    write_judged(tmp_path)
    data = finetune_recipe(str(models / "student"), tmp_path / "run", [str(tmp_path / "nli.tsv")], device="cpu")
    found = by_name(examine_recipe(recipes.parse(data)))
    assert found["training data"].text == "48 rows for nli" and found["student"].verdict == "good"
    data["stage"][0]["files"] = ["gone.tsv"]
    (bad,) = [finding for finding in examine_recipe(recipes.parse(data)) if finding.verdict == "bad"]
    assert bad.about == "training data" and "gone.tsv" in bad.text


def test_files_of_stages_are_read_beside_the_pairs(models: Path, tsv: Path, tmp_path: Path) -> None:
    data = as_dict(tiny_recipe(models, tsv, tmp_path, "training.train_layers=0"))
    stages = [{"task": "bridge"}, {"task": "distill"}, {"task": "nli", "files": ["gone.tsv"]}]
    found = by_name(examine_recipe(recipes.parse(data | {"stage": stages})))
    assert found["pairs"].verdict == "good" and "gone.tsv" in found["training data"].text

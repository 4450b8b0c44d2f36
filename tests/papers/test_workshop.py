"""Every recipe of the papers, made at toy size by the code that makes it in the lab; and what is made once, is."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isogloss.corpora.store import open_store
from isogloss.errors import DataError, ModelError, RecipeError
from isogloss.evaluation.leak_report import scan_of
from isogloss.progress import Step
from isogloss.storage import weights_hash
from isogloss.types import TRAIN
from isogloss_papers.recipe import FOLDER, system_names
from isogloss_papers.text import prepared_pairs
from isogloss_papers.workshop import MADE, CannotBeMade, Made, Workshop, _made_before
from papers_world import JUDGED
from tiny import PAIRS

TEXTS = [pair.target for pair in PAIRS[:8]]


@pytest.mark.parametrize("name", system_names())
def test_every_recipe_runs(workshop: Workshop, name: str) -> None:
    for language in workshop.languages_of(name):
        system = workshop.resolve(name, language)
        if system.making.how == "published":
            with pytest.raises(CannotBeMade) as caught:
                workshop.make(system)
            assert caught.value.message == system.making.why
            continue
        made = workshop.make(system)
        vectors = made.open("cpu").encode(TEXTS)
        assert vectors.shape[0] == len(TEXTS) and np.isfinite(vectors).all() and vectors.std() > 0
        assert system.backbone
        if system.making.has_pairs:
            assert (made.pairs and scan_of(made.model) is not None) or system.making.nli, "what it learnt from is written down"
            assert (language or system.making.languages[0]) in system.data


@pytest.mark.parametrize("language", ["de", "ar"])
def test_a_student_learns_from_its_teacher_and_in_its_language(workshop: Workshop, language: str) -> None:
    system = workshop.resolve("size-full", language)
    made = workshop.make(system)
    recipe = json.loads((Path(made.model).parent / "run.json").read_text())["recipe"]
    assert recipe["teacher"]["model"] == workshop.make(system.others["teacher"]).model
    assert [open_store(Path(store)).languages for store in recipe["pairs"]["files"]] == [(language,)]
    assert json.loads((Path(made.model) / "config.json").read_text())["num_hidden_layers"] == recipe["student"]["layers"] == 1


def test_a_system_is_made_once_and_what_it_is_made_from_comes_first(workshop: Workshop, lab: Path) -> None:
    steps: list[Step] = []
    elsewhere = replace(workshop, out=lab / "again", on_progress=steps.append, _resolved={}, _failed={})
    system = elsewhere.resolve("mbert-from-sbert-nli-stsb")
    assert not elsewhere.is_made(system)
    made = elsewhere.make(system)
    assert elsewhere.is_made(system)
    order = [step.stage for step in steps if step.stage.startswith("making") and step.done]
    assert order == ["making random-body", "making sbert-nli-stsb", "making mbert-from-sbert-nli-stsb"]
    assert not list((lab / "again").glob("systems/*/*/work")), "what training leaves to go on from is large"
    before, first = weights_hash(Path(made.model)), len(steps)
    assert elsewhere.make(system) == made and len(steps) == first
    (Path(made.model).parent / MADE).unlink()  # killed before it was written down
    assert not elsewhere.is_made(system)
    again = elsewhere.make(system)
    assert weights_hash(Path(again.model)) == before and again.pairs == made.pairs
    assert next(step.stage for step in steps[first:] if step.stage.startswith("making")) == "making mbert-from-sbert-nli-stsb"


def test_a_finished_system_may_be_carried_elsewhere(workshop: Workshop, lab: Path) -> None:
    made = workshop.make(workshop.resolve("random-body"))
    shutil.copytree(lab / "out" / "systems" / "random-body", lab / "moved" / "systems" / "random-body")
    found = replace(workshop, out=lab / "moved", _resolved={}, _failed={})
    assert found.make(found.resolve("random-body")).model == made.model.replace(str(lab / "out"), str(lab / "moved"))


def test_random_weights_are_random_and_of_the_same_shape(workshop: Workshop, lab: Path) -> None:
    from sentence_transformers import SentenceTransformer

    made = workshop.make(workshop.resolve("random-body"))
    ours = SentenceTransformer(made.model, device="cpu").state_dict()
    theirs = SentenceTransformer(str(lab / "models" / "multilingual-e5-small"), device="cpu").state_dict()
    assert {name: value.shape for name, value in ours.items()} == {name: value.shape for name, value in theirs.items()}
    name = next(one for one in ours if one.endswith("word_embeddings.weight"))
    assert abs(np.corrcoef(ours[name].flatten(), theirs[name].flatten())[0, 1]) < 0.1
    assert ours[name].std() == pytest.approx(0.2, rel=0.1), "as the body's own configuration begins"


def test_keys_follow_what_a_system_is_made_of(workshop: Workshop, lab: Path, tmp_path: Path) -> None:
    key = workshop.resolve("xlm-r-korean-from-sbert-nli-stsb").key
    assert fresh(workshop).resolve("xlm-r-korean-from-sbert-nli-stsb").key == key
    other = fresh(workshop, overrides=(*workshop.overrides, "distil.training.epochs=2"))
    assert other.resolve("xlm-r-korean-from-sbert-nli-stsb").key != key
    taught = fresh(workshop, overrides=(*workshop.overrides, "finetune.seed=3"))
    assert taught.resolve("xlm-r-korean-from-sbert-nli-stsb").key != key, "the teacher is another one"
    assert taught.resolve("laser").key == workshop.resolve("laser").key
    shutil.copytree(lab / "data" / "train", tmp_path / "train")
    shutil.copytree(lab / "data" / "eval", tmp_path / "eval")
    moved = fresh(workshop, data=tmp_path)
    assert moved.resolve("xlm-r-korean-from-sbert-nli-stsb").key == key, "where the data is does not matter"
    (tmp_path / "train" / "tatoeba" / "en-ko.tsv.gz").write_bytes(b"changed")
    assert fresh(moved).resolve("xlm-r-korean-from-sbert-nli-stsb").key != key
    assert workshop.resolve("control-undistilled").key == workshop.resolve("xlm-r-mean").key
    assert workshop.resolve("data-tatoeba", "de").key != workshop.resolve("data-tatoeba", "ar").key


def fresh(workshop: Workshop, **changes: object) -> Workshop:
    return replace(workshop, _resolved={}, _failed={}, **changes)  # type: ignore[arg-type]


def test_what_differs_is_said_of_teachers_too(workshop: Workshop) -> None:
    teacher = workshop.resolve("sbert-nli-stsb").making.differs
    told = workshop.resolve("xlm-r-from-sbert-nli-stsb").differs
    assert all(f"SBERT-nli-stsb: {sentence}" in told for sentence in teacher)
    moving = workshop.resolve("hk-moving-teacher").differs
    assert len(moving) == len(set(moving)) and sum("stands for XLM-R" in sentence for sentence in moving) == 1


def test_judged_pairs_lose_rows_of_test_sets(workshop: Workshop) -> None:
    made = workshop.make(workshop.resolve("sbert-nli-stsb"))
    assert made.facts["counts"] == {"nli": JUDGED, "sts": JUDGED}
    record = json.loads((Path(made.model).parent / "run.json").read_text())
    assert record["data"]["sts_dev"]["rows"] == JUDGED and record["data"]["sts_dev"]["shared_with_training"] == 0


def test_the_first_pairs_of_each_language(workshop: Workshop, lab: Path) -> None:
    few = fresh(workshop, recipes=lab / "few", overrides=(*workshop.overrides, "pairs.held_out=0.0"))
    (lab / "few").mkdir(exist_ok=True)
    for name in ("size-1k", "sbert-nli-stsb"):
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        (lab / "few" / f"{name}.toml").write_text(text.replace("first = 1000", "first = 25"), encoding="utf-8")
    system = few.resolve("size-1k", "de")
    store = prepared_pairs(system.making, "de", lab / "data", lab / "few-pairs")
    assert [pair.source for pair in store.bitext()] == [pair.source for pair in PAIRS if pair.language == "de"][:25]
    assert (
        store.languages == ("de",) and prepared_pairs(system.making, "de", lab / "data", lab / "few-pairs").hash == store.hash
    )


def test_pairs_are_guarded_unless_told_otherwise(workshop: Workshop, lab: Path) -> None:
    """Toy text is test text: with the guard on, nothing of Tatoeba is left to learn from."""
    kept = tuple(one for one in workshop.overrides if one != "leaks.level=off")
    system = fresh(workshop, overrides=kept).resolve("xlm-r-korean-from-sbert-nli-stsb")
    store = prepared_pairs(system.making, "", lab / "data", lab / "guarded-pairs")
    assert "tatoeba" not in store.bitext().where(split=TRAIN).column("corpus")
    assert any("sts2017" in one["name"] for one in store.manifest["leak_scan"]["sets"])
    assert not any("train" in one["name"] for one in store.manifest["leak_scan"]["sets"])


def test_what_is_missing_is_said(workshop: Workshop, tmp_path: Path) -> None:
    elsewhere = fresh(workshop, data=tmp_path)
    teacher = elsewhere.resolve("sbert-nli-stsb")
    with pytest.raises(DataError, match=r"multinli15k\.en\.tsv\.gz: not in"):
        elsewhere.make(teacher)
    paper = fresh(workshop, scale="paper", overrides=())
    labse = paper.make(paper.resolve("labse"))
    with pytest.raises(ModelError, match="sentence-transformers/LaBSE"):
        labse.open("cpu")
    with pytest.raises(RecipeError, match="nobody: no such system"):
        workshop.resolve("nobody")
    with pytest.raises(RecipeError, match="scale = 'huge' is not known"):
        fresh(workshop, scale="huge").resolve("labse")


def test_a_system_cannot_be_made_from_itself(workshop: Workshop, tmp_path: Path) -> None:
    text = 'title = "x"\n[paper]\nhow = "published"\nwhy = "x"\n[lab]\nhow = "mean"\nmodel = "system:{}"\n'
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.toml").write_text(text.format(other))
    with pytest.raises(RecipeError, match="one ← two ← one: a system cannot be made from itself"):
        fresh(workshop, recipes=tmp_path).resolve("one")


def test_mean_pooling_is_mean_pooling(workshop: Workshop, lab: Path, tmp_path: Path) -> None:
    """Also of a model that pools in another way."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model = SentenceTransformer(str(lab / "models" / "multilingual-e5-small"), device="cpu")
    by_mean = model.encode(TEXTS)
    model[1] = Pooling(16, "cls")
    model.save(str(tmp_path / "cls"), create_model_card=False)
    found = Made(name="x", key="x", model=str(tmp_path / "cls"), mean=True).open("cpu").encode(TEXTS)
    np.testing.assert_allclose(found, by_mean, atol=1e-5)
    asis = Made(name="x", key="x", model=str(tmp_path / "cls")).open("cpu").encode(TEXTS)
    assert np.abs(asis - by_mean).max() > 0.01


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"name": "x", "key": "k", "model": 3}', '{"name": "x", "key": "k", "model": "m", "y": 1}']
)
def test_a_note_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MADE).write_text('{"name": "x", "key": "k", "model": "elsewhere", "facts": {"a": [1]}}')
    assert _made_before(tmp_path) == Made(name="x", key="k", model=str(tmp_path / "model"), facts={"a": [1]})
    (tmp_path / MADE).write_text(text)
    with pytest.raises(DataError, match=r"made.json: cannot be used"):
        _made_before(tmp_path)

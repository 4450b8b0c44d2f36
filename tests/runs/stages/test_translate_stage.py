"""LASER from pairs to a folder: it learns, it resumes to the same weights, and every other verb takes what it leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.corpora import phrasebook
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.models.encoder import load
from isogloss.progress import Step, silent
from isogloss.runs.pipeline import run
from isogloss.runs.presets import laser_recipe
from isogloss.storage import weights_hash

STUDENT: dict[str, Any] = {"vocabulary": 400, "embedding": 32, "hidden": 32, "lstm_layers": 1, "max_tokens": 40}
STAGE: dict[str, Any] = {"decoder": 64, "language": 4}
TRAINING: dict[str, Any] = {"batch_pairs": 40, "learning_rate": 1e-2, "dev_pairs": 0}
STEPS = 90


@pytest.fixture(scope="session")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty pairs of the phrasebook: its shortest training sentences in German and Spanish, and some held-out ones."""
    head, *rows = phrasebook.path().read_text(encoding="utf-8").splitlines()
    places = [head.split("\t").index(name) for name in ("split", "en", "de", "es")]
    table = sorted(([row.split("\t")[place] for place in places] for row in rows), key=lambda row: sum(map(len, row)))
    kept = [row for row in table if row[0] == "train"][:20] + [row for row in table if row[0] == "test"][:4]
    path = tmp_path_factory.mktemp("pairs") / "forty.tsv"
    path.write_text("\n".join("\t".join(row) for row in [["split", "en", "de", "es"], *kept]) + "\n", encoding="utf-8")
    return path


def recipe_for(forty: Path, out: Path, **more: Any) -> Recipe:  # noqa: ANN401
    tables = {
        name: base | more.pop(name, {}) for name, base in (("student", STUDENT), ("stage", STAGE), ("training", TRAINING))
    }
    return recipes.parse(laser_recipe([str(forty)], out, device="cpu", threads=1, **tables, **more), (), "test")


@pytest.fixture(scope="session")
def trained(forty: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]]]:
    """A run, and the values of its steps."""
    out, values = tmp_path_factory.mktemp("laser") / "run", list[dict[str, float]]()
    run(recipe_for(forty, out, training={"steps": STEPS}), lambda step: values.append(step.values))
    return out, values


def columns(forty: Path, split: str = "train") -> list[list[str]]:
    rows = [line.split("\t") for line in forty.read_text(encoding="utf-8").splitlines()[1:]]
    return [list(column) for column in zip(*(row[1:] for row in rows if row[0] == split), strict=True)]


def test_it_learns_and_finds_its_translations(trained: tuple[Path, list[dict[str, float]]], forty: Path) -> None:
    out, values = trained
    losses = [step["translation"] for step in values if "translation" in step]
    assert losses[0] > 4 and losses[-1] < 0.5 * losses[0]
    model = SentenceTransformer(str(out / "model"), device="cpu", trust_remote_code=False)
    english, german, spanish = (model.encode(texts, normalize_embeddings=True) for texts in columns(forty))
    right = [
        ((one @ other.T).argmax(1) == np.arange(20)).mean()
        for one, other in ((german, english), (english, german), (spanish, english), (german, spanish))
    ]
    assert right[0] > 0.6 and np.mean(right) > 0.35, f"{right}, where chance would be 0.05"


def test_what_it_leaves(trained: tuple[Path, list[dict[str, float]]]) -> None:
    out, _ = trained
    results, record = (json.loads((out / name).read_text()) for name in ("results.json", "run.json"))
    assert record["status"] == "finished" and record["recipe"]["student"]["hidden"] == 32
    assert record["hashes"]["weights"] == weights_hash(out / "model")
    # de → en and es → en; en → es and de → es
    assert results["translate"]["examples"] == {"en": 40, "es": 40}
    assert set(results["stages"]["translate"]["languages"]) == {"de", "es"}
    assert results["training"]["translate"]["steps"] == STEPS
    assert SentenceTransformer(str(out / "model"), device="cpu").get_embedding_dimension() == 64
    assert not list((out / "model").rglob("*decoder*"))
    assert (out / "model" / "isogloss_training.json").is_file()
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS


@pytest.mark.parametrize("dev_pairs", [0, 4])
def test_stopped_anywhere_it_continues_to_the_same_weights(forty: Path, tmp_path: Path, dev_pairs: int) -> None:
    training = {"steps": 9, "batch_pairs": 8, "dev_pairs": dev_pairs, "dev_share": 0.2, "dev_checks": 3, "select": "loss"}
    given: dict[str, Any] = {
        "training": training | {"checkpoint_seconds": 0.0},
        "student": {"lstm_layers": 2},
        "stage": {"dropout": 0.2, "smoothing": 0.1},
    }
    whole = run(recipe_for(forty, tmp_path / "whole", **given))
    assert whole.training is not None and whole.training.steps_now == 9 and whole.training.best_step
    recipe = recipe_for(forty, tmp_path / "cut", **given)
    for stage, most in (("vocabulary", 0), ("translate", 3), ("translate", 3)):
        seen = 0

        def stop(step: Step, stage: str = stage, most: int = most) -> None:
            nonlocal seen
            seen += step.stage == stage
            if seen > most:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(recipe, stop)
    notes: list[str] = []
    again = run(recipe, lambda step: notes.append(step.note))
    assert again.training is not None and 0 < again.training.steps_now < 6
    assert any("continued at step" in note for note in notes)
    assert weights_hash(again.model) == weights_hash(whole.model)
    assert again.training.best_step == whole.training.best_step
    facts = whole.details["translate"]
    assert facts["dev_pairs"] == 2 * dev_pairs and ("dev_loss" in whole.training.dev) == bool(dev_pairs)
    left = 40 - 2 * dev_pairs
    assert facts["examples"] == {"en": left, "es": left}, "dev pairs are not trained on"
    third = run(recipe)
    assert third.training is not None and third.training.steps_now == 0
    assert weights_hash(third.model) == weights_hash(whole.model)


@pytest.mark.parametrize("other", [{"smoothing": 0.1}, {"decoder": 20}, {"targets": ["en", "de"]}])
def test_another_training_is_not_continued(forty: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    run(recipe_for(forty, tmp_path / "run", training={"steps": 2}))
    again = run(recipe_for(forty, tmp_path / "run", training={"steps": 2}, stage=other), replace=True)
    assert again.training is not None and again.training.steps_now == 2


def test_fresh_begins_again(forty: Path, tmp_path: Path) -> None:
    recipe = recipe_for(forty, tmp_path / "run", training={"steps": 3})
    run(recipe)
    again = run(recipe, fresh=True)
    assert again.training is not None and again.training.steps_now == 3


def test_training_without_a_gain_is_reported(forty: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    training = {"steps": 2, "learning_rate": 0.0, "dev_pairs": 4, "dev_share": 0.2}
    result = run(recipe_for(forty, tmp_path / "run", training=training))
    assert result.training is not None and "no step of the training did better" in result.training.setback
    assert "no step of the training did better" in caplog.text


def test_without_enough_pairs_the_last_weights_are_kept(forty: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = run(recipe_for(forty, tmp_path / "run", training={"steps": 2, "dev_pairs": 4, "dev_share": 0.01}))
    assert result.training is not None and result.training.best_step == 2 and "the last weights are kept" in caplog.text


def test_settings_of_the_paper_and_of_the_lab() -> None:
    paper, lab = (recipes.parse(laser_recipe(["x"], "out", scale), (), "test") for scale in ("paper", "lab"))
    student, stage = paper.student, laser_recipe(["x"], "out")["stage"][0]
    assert (student.vocabulary, student.embedding, student.hidden, student.lstm_layers) == (50_000, 320, 512, 5)
    training = paper.training_of(paper.stages[0])
    assert (training.learning_rate, training.schedule, training.epochs, training.batch_pairs) == (1e-3, "constant", 17, 4096)
    assert stage == {"task": "translate"} and lab.student.lstm_layers == 2 and lab.training_of(lab.stages[0]).epochs == 10
    with pytest.raises(RecipeError, match="scale = 'huge' is not known"):
        laser_recipe(["x"], "out", "huge")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"stage": {"targets": ["en"]}}, RecipeError, "two different languages"),
        ({"stage": {"targets": ["de", "es"]}}, RecipeError, "the source side of the pairs is en"),
        ({"stage": {"targets": ["en", "fr"]}}, DataError, "no pairs of en and fr"),
        ({"student": {"hidden": 0}}, RecipeError, "student.hidden"),
        ({"student": {"vocabulary_kind": "words"}}, RecipeError, "bpe, unigram"),
        ({"languages": ["de"]}, DataError, "no pairs of en and es"),
        ({"pears": {"files": "x"}}, RecipeError, "unknown key pears"),
    ],
)
def test_what_does_not_fit_is_refused(
    forty: Path, tmp_path: Path, given: dict[str, Any], kind: type[IsoglossError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        run(recipe_for(forty, tmp_path / "run", **given))
    assert message in f"{caught.value} {caught.value.hint}" and caught.value.hint
    assert not (tmp_path / "run" / "model").exists()


def test_any_encoder_of_isogloss_opens_it(trained: tuple[Path, list[dict[str, float]]], forty: Path) -> None:
    encoder = load(str(trained[0]), device="cpu")
    texts = [text for column in columns(forty) for text in column] * 3  # enough for the fast path, if there were one
    vectors = encoder.encode(texts, silent)
    plain = SentenceTransformer(str(trained[0] / "model"), device="cpu").encode(texts)
    assert vectors.shape == (len(texts), 64) and np.allclose(vectors, plain, atol=1e-6)
    assert torch.get_num_threads() == 1

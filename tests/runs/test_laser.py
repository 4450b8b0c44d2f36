"""LASER from pairs to a folder: it learns, it is resumed to the same weights, and every other verb takes what it leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isogloss.corpora import phrasebook
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.models.encoder import load
from isogloss.progress import Step, silent
from isogloss.runs.laser import LaserSettings, train_laser
from isogloss.storage import weights_hash

TINY: dict[str, Any] = {
    "vocabulary": 400,
    "embedding": 32,
    "hidden": 32,
    "layers": 1,
    "decoder": 64,
    "language": 4,
    "max_tokens": 40,
    "batch": 40,
    "learning_rate": 1e-2,
    "dev_pairs": 0,
}
STEPS = 90
CPU = ("device='cpu'", "threads=1")


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


def settings(**other: Any) -> LaserSettings:  # noqa: ANN401
    return LaserSettings(**(TINY | other))


@pytest.fixture(scope="session")
def trained(forty: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]]]:
    """A run, and what its steps said."""
    out, said = tmp_path_factory.mktemp("laser") / "run", list[dict[str, float]]()
    train_laser([str(forty)], out, settings(steps=STEPS), CPU, lambda step: said.append(step.values))
    return out, said


def columns(forty: Path, split: str = "train") -> list[list[str]]:
    rows = [line.split("\t") for line in forty.read_text(encoding="utf-8").splitlines()[1:]]
    return [list(column) for column in zip(*(row[1:] for row in rows if row[0] == split), strict=True)]


def test_it_learns_and_finds_its_translations(trained: tuple[Path, list[dict[str, float]]], forty: Path) -> None:
    out, said = trained
    losses = [values["translation"] for values in said if "translation" in values]
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
    assert record["status"] == "finished" and record["laser"]["hidden"] == 32
    assert record["hashes"]["weights"] == weights_hash(out / "model")
    # de → en and es → en; en → es and de → es
    assert results["student"]["examples"] == {"en": 40, "es": 40} and results["student"]["dimension"] == 64
    assert set(results["stages"]["laser"]["languages"]) == {"de", "es"}
    assert results["training"]["steps"] == STEPS
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert "40 examples into en, 40 examples into es" in card and "max-pooled to dimension 64" in card
    assert not list((out / "model").rglob("*decoder*"))
    assert (out / "model" / "isogloss_training.json").is_file()
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS


@pytest.mark.parametrize("dev_pairs", [0, 4])
def test_stopped_anywhere_it_continues_to_the_same_weights(forty: Path, tmp_path: Path, dev_pairs: int) -> None:
    how = settings(
        steps=9,
        batch=8,
        dropout=0.2,
        layers=2,
        smoothing=0.1,
        dev_pairs=dev_pairs,
        dev_share=0.2,
        dev_checks=3,
        select="loss",
        checkpoint_seconds=0.0,
    )
    whole = train_laser([str(forty)], tmp_path / "whole", how, CPU)
    assert whole.training is not None and whole.training.steps_now == 9 and whole.training.best_step
    for stage, most in (("vocabulary", 0), ("laser", 3), ("laser", 3)):
        seen = 0

        def stop(step: Step, stage: str = stage, most: int = most) -> None:
            nonlocal seen
            seen += step.stage == stage
            if seen > most:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_laser([str(forty)], tmp_path / "cut", how, CPU, stop)
    notes: list[str] = []
    again = train_laser([str(forty)], tmp_path / "cut", how, CPU, lambda step: notes.append(step.note))
    assert again.training is not None and 0 < again.training.steps_now < 6
    assert any("continued at step" in note for note in notes)
    assert weights_hash(again.model) == weights_hash(whole.model)
    assert again.training.best_step == whole.training.best_step
    assert whole.details["student"]["dev_pairs"] == 2 * dev_pairs and ("dev_loss" in whole.training.dev) == bool(dev_pairs)
    left = 40 - 2 * dev_pairs
    assert whole.details["student"]["examples"] == {"en": left, "es": left}, "dev pairs are not trained on"
    third = train_laser([str(forty)], tmp_path / "cut", how, CPU)
    assert third.training is not None and third.training.steps_now == 0
    assert weights_hash(third.model) == weights_hash(whole.model)


@pytest.mark.parametrize("other", [{"smoothing": 0.1}, {"decoder": 20}, {"targets": ("en", "de")}])
def test_another_training_is_not_continued(forty: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    train_laser([str(forty)], tmp_path / "run", settings(steps=2), CPU)
    again = train_laser([str(forty)], tmp_path / "run", settings(steps=2, **other), CPU, replace=True)
    assert again.training is not None and again.training.steps_now == 2


def test_fresh_begins_again(forty: Path, tmp_path: Path) -> None:
    how = settings(steps=3)
    train_laser([str(forty)], tmp_path / "run", how, CPU)
    again = train_laser([str(forty)], tmp_path / "run", how, CPU, fresh=True)
    assert again.training is not None and again.training.steps_now == 3


def test_an_encoder_that_training_did_not_help_is_told_of(
    forty: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    how = settings(steps=2, learning_rate=0.0, dev_pairs=4, dev_share=0.2)
    result = train_laser([str(forty)], tmp_path / "run", how, CPU)
    assert result.training is not None and "than the untrained encoder" in result.training.setback
    assert "than the untrained encoder" in caplog.text


def test_without_enough_pairs_the_last_weights_are_kept(forty: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = train_laser([str(forty)], tmp_path / "run", settings(steps=2, dev_pairs=4, dev_share=0.01), CPU)
    assert result.training is not None and result.training.best_step == 2 and "the last weights are kept" in caplog.text


def test_settings_of_the_paper_and_of_the_lab() -> None:
    paper, lab = LaserSettings.at("paper"), LaserSettings.at("lab", hidden=64)
    assert (paper.vocabulary, paper.embedding, paper.hidden, paper.layers, paper.decoder) == (50_000, 320, 512, 5, 2048)
    assert (paper.language, paper.dropout, paper.learning_rate, paper.schedule, paper.epochs) == (32, 0.1, 1e-3, "constant", 17)
    assert lab.hidden == 64 and lab.layers == 2 and lab.targets == ("en", "es")


@pytest.mark.parametrize(
    ("given", "overrides", "kind", "message"),
    [
        ({"targets": ("en",)}, (), RecipeError, "there must be two languages"),
        ({"targets": ("en", "eng")}, (), RecipeError, "there must be two languages"),
        ({"targets": ("de", "es")}, (), RecipeError, "the pairs' source side is en"),
        ({"targets": ("en", "fr")}, (), DataError, "no pairs of en and fr"),
        ({"hidden": 0}, (), RecipeError, "hidden = 0 is impossible"),
        ({"vocabulary_kind": "words"}, (), RecipeError, "choose from: bpe, unigram"),
        ({"select": "mse"}, (), RecipeError, "'mse' is not known"),
        ({}, ("training.epochs=3",), RecipeError, "[training] says nothing about LASER"),
        ({}, ("languages=de",), DataError, "no pairs of en and es"),
        ({}, ("pears.files=x",), RecipeError, "unknown key pears"),
    ],
)
def test_what_does_not_fit_is_refused(
    forty: Path,
    tmp_path: Path,
    given: dict[str, Any],
    overrides: tuple[str, ...],
    kind: type[IsoglossError],
    message: str,
) -> None:
    with pytest.raises(kind) as caught:
        train_laser([str(forty)], tmp_path / "run", settings(**given), [*CPU, *overrides])
    told = f"{caught.value} {caught.value.hint}"
    assert message in told and caught.value.hint
    assert not (tmp_path / "run" / "model").exists()


def test_a_scale_is_known_by_its_name() -> None:
    with pytest.raises(RecipeError, match="scale = 'huge' is not known"):
        LaserSettings.at("huge")


def test_any_encoder_of_isogloss_opens_it(trained: tuple[Path, list[dict[str, float]]], forty: Path) -> None:
    encoder = load(str(trained[0]), device="cpu")
    texts = [
        text for column in columns(forty) for text in column
    ] * 3  # enough to be computed in another way, if there were one
    vectors = encoder.encode(texts, silent)
    plain = SentenceTransformer(str(trained[0] / "model"), device="cpu").encode(texts)
    assert vectors.shape == (len(texts), 64) and np.allclose(vectors, plain, atol=1e-6)
    assert torch.get_num_threads() == 1

"""The cross-encoder learns what people said, scores alike in any batch, and comes back as it was saved."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from bodies import FAMILIES, WIDTH, body
from isogloss.errors import ModelError
from isogloss.models.loading import open_model, quiet_transformers
from isogloss.training.cross_encoder import CrossEncoder, PairScoring, _trained
from isogloss.training.train import TaskSettings
from judged import rated
from tiny import unigram


@pytest.fixture
def encoder(models: Path) -> CrossEncoder:
    return CrossEncoder.open(str(models / "student"), device="cpu", seed=3)


def test_it_starts_from_the_weights_of_the_body(encoder: CrossEncoder, models: Path) -> None:
    body = open_model(str(models / "student"))[0].auto_model
    mine = encoder.model.base_model.state_dict()
    for name, value in body.state_dict().items():
        assert torch.equal(mine[name], value), name
    assert encoder.model.config.num_labels == 1 and not encoder.trained
    again, other = (CrossEncoder.open(str(models / "student"), device="cpu", seed=seed) for seed in (3, 4))
    assert torch.equal(again.model.classifier.weight, encoder.model.classifier.weight)
    assert not torch.equal(other.model.classifier.weight, encoder.model.classifier.weight)


def test_scores_do_not_depend_on_the_batch(encoder: CrossEncoder) -> None:
    pairs = rated()
    together = encoder.score(pairs.first, pairs.second)
    alone = [float(encoder.score([one], [other])[0]) for one, other in zip(pairs.first, pairs.second, strict=True)]
    assert together == pytest.approx(alone, abs=1e-4)
    assert ((together > 0) & (together < 5)).all() and len(encoder.score([], [])) == 0


def test_scores_are_those_of_plain_transformers(encoder: CrossEncoder, tmp_path: Path) -> None:
    pairs = rated(0, 6)
    encoder.save(tmp_path / "cross")
    with quiet_transformers():
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "cross").eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "cross")
    wanted = []
    for one, other in zip(pairs.first, pairs.second, strict=True):
        row = tokenizer(one, other, return_tensors="pt", return_token_type_ids=True)
        with torch.no_grad():
            wanted.append(5 / (1 + float(torch.exp(-model(**row).logits[0, 0]))))
    assert encoder.score(pairs.first, pairs.second).tolist() == pytest.approx(wanted, abs=1e-4)
    opened = CrossEncoder.open(str(tmp_path / "cross"), device="cpu")
    assert opened.trained and opened.score(pairs.first, pairs.second).tolist() == pytest.approx(wanted, abs=1e-4)


def test_the_loss_is_binary_cross_entropy_with_gold_over_five(encoder: CrossEncoder) -> None:
    pairs = rated()
    task = PairScoring(encoder, encoder.tokenize(pairs.first, pairs.second), pairs.gold)
    chosen = np.array([1, 5, 9])
    with torch.no_grad():
        loss = float(task.loss(task.prepare(chosen)))
    p = encoder.score([pairs.first[j] for j in chosen], [pairs.second[j] for j in chosen]).astype(np.float64) / 5
    g = pairs.gold[chosen].astype(np.float64) / 5
    assert loss == pytest.approx(float(-(g * np.log(p) + (1 - g) * np.log(1 - p)).mean()), rel=1e-4)
    assert len(task) == len(pairs) and task.count(task.prepare(chosen)).tokens > 0


def test_it_learns_to_rate_both_orders(encoder: CrossEncoder) -> None:
    pairs = rated(0, 120)
    some = [*np.flatnonzero(pairs.gold >= 3)[:8], *np.flatnonzero(pairs.gold == 0)[:8]]
    first, second, gold = [pairs.first[j] for j in some], [pairs.second[j] for j in some], pairs.gold[some]
    settings = TaskSettings(epochs=30, batch_pairs=8, learning_rate=2e-3, dropout=False, seed=1)
    assert np.abs(encoder.score(first, second) - gold).max() > 2
    summary = encoder.train(first, second, gold, settings)
    assert summary.steps == 120 and encoder.trained  # 2 × 16 pairs in batches of 8
    for one, other in ((first, second), (second, first)):
        assert np.abs(encoder.score(one, other) - gold).max() < 0.6


def test_both_sentences_of_a_long_pair_are_seen(models: Path) -> None:
    encoder = CrossEncoder.open(str(models / "student"), max_tokens=10, device="cpu")
    long = " ".join(["the cat runs home."] * 20)
    rows = encoder.tokenize([long, "a child."], [long, long])
    assert rows.tokens.lengths.tolist() == [10, 10]
    assert encoder.max_tokens == 10 and CrossEncoder.open(str(models / "student"), 500, "cpu").max_tokens == 64
    ends = (rows.tokens.ids == encoder.tokenizer.sep_token_id).sum()
    assert ends == 6  # both sentences of both pairs are closed


def test_what_cannot_be_a_cross_encoder_is_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        CrossEncoder.open(str(tmp_path / "nothing"))
    encoder = CrossEncoder.open(str(models / "student"), device="cpu")
    config = type(encoder.model.config).from_dict({**encoder.model.config.to_dict(), "id2label": {n: str(n) for n in range(3)}})
    three = AutoModelForSequenceClassification.from_config(config)
    with quiet_transformers():
        three.save_pretrained(tmp_path / "three")
        encoder.tokenizer.save_pretrained(tmp_path / "three")
    with pytest.raises(ModelError, match="3 outputs"):
        CrossEncoder.open(str(tmp_path / "three"))


@pytest.mark.parametrize("family", FAMILIES)
def test_bodies_of_every_family_read_pairs_as_long_as_they_have_places_for(family: str, tmp_path: Path) -> None:
    body(family).save_pretrained(tmp_path / "body")
    tokenizer = unigram()
    tokenizer.model_max_length = 10**30  # as of tokenizers that do not say
    with quiet_transformers():
        tokenizer.save_pretrained(tmp_path / "body")
        modules = [Transformer(str(tmp_path / "body")), Pooling(WIDTH, "mean")]
        SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"), create_model_card=False)
    encoder = CrossEncoder.open(str(tmp_path / "model"), 500, "cpu")
    assert encoder.max_tokens == (64 if family in ("XLM-R", "MPNet") else 66)
    long = " ".join(["the cat runs home."] * 20)
    assert encoder.tokenize([long], [long]).tokens.lengths.tolist() == [encoder.max_tokens]
    scores = encoder.score([long, "the cat."], ["a child.", long])
    assert np.isfinite(scores).all() and scores[0] != scores[1]


def test_nobody_is_asked_for_a_carried_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda name, **_: asked.append(name))
    assert _trained("all-MiniLM-L6-v2") is None and not asked
    with pytest.raises(AttributeError):
        _trained("some/encoder")  # what answers here is no configuration
    assert asked == ["some/encoder"]

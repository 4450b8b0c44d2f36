"""The adapter around a model: each text once, in order; the faster way only where it gives the same; broken vectors refused."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Dense

from bodies import sentence_model
from isogloss.errors import DataError, ModelError
from isogloss.models.cached_encoder import embed
from isogloss.models.encoder import WORTH_PREPARING, Encoder, SentenceEncoder, load, refuse_broken
from isogloss.progress import Step
from tiny import TEXTS

MANY = [f"{one} {number}" for number in range(1 + WORTH_PREPARING // len(set(TEXTS))) for one in dict.fromkeys(TEXTS)]
REPEATED = [*MANY, *TEXTS, MANY[0]]


@pytest.mark.parametrize("family", ["BERT", "XLM-R", "MPNet", "DeBERTa"])
def test_vectors_are_the_models_own(family: str) -> None:
    """A few sentences and many, by the model itself and the faster way; DeBERTa goes the first way always."""
    model = sentence_model(family, bridge=20, normalize=True)
    encoder: Encoder = SentenceEncoder(model, family, prompt="a child ")
    for texts in (TEXTS[:3], REPEATED, TEXTS[:3]):
        expected = model.encode(texts, prompt="a child ", show_progress_bar=False)
        assert np.abs(encoder.encode(texts) - expected).max() < 1e-5
    assert isinstance(encoder, SentenceEncoder) and (encoder._fast is None) == (family == "DeBERTa")
    assert encoder.dimension == 20 and encoder.encode([]).shape == (0, 20)


def test_the_models_own_prompt_stands_in() -> None:
    model = sentence_model("XLM-R")
    model.prompts["say"], model.default_prompt_name = "my friend ", "say"
    encoder = SentenceEncoder(model, "prompted")
    expected = model.encode(MANY, show_progress_bar=False)
    assert np.abs(encoder.encode(MANY) - expected).max() < 1e-5
    assert encoder._fast is not None and encoder._fast.prompt == "my friend "


@pytest.mark.parametrize("family", ["BERT", "DeBERTa"])
def test_each_text_is_computed_once_and_counted(family: str) -> None:
    steps: list[Step] = []
    encoder = SentenceEncoder(sentence_model(family), family)
    vectors = encoder.encode(REPEATED, steps.append, "say")
    assert (vectors[0] == vectors[-1]).all()
    distinct = len(set(REPEATED))
    assert distinct < len(REPEATED) == len(vectors)
    assert {(step.stage, step.total, step.unit) for step in steps} == {("say", distinct, "sentences")}
    done = [step.done for step in steps]
    assert done == sorted(done) and len(done) == len(set(done)) and done[-1] == distinct


def test_a_model_that_was_moved_or_asked_rarely_is_not_taken_apart() -> None:
    encoder = SentenceEncoder(sentence_model("BERT"), "rare")
    encoder.encode(TEXTS[:9])
    assert encoder._fast is None
    for _ in range(1 + WORTH_PREPARING // len(set(TEXTS[:9]))):
        encoder.encode(TEXTS[:9])
    first = encoder._fast
    assert first is not None
    encoder.encode(TEXTS[:9])
    assert encoder._fast is first
    first.device = torch.device("meta")  # as if the model had been there when it was taken apart
    encoder.encode(TEXTS[:9])
    assert encoder._fast is not first and encoder._fast is not None


def test_precision(caplog: pytest.LogCaptureFixture) -> None:
    """Half precision where it is asked for; single where half does not agree, and that is said."""
    model = sentence_model("BERT", normalize=True)
    half = SentenceEncoder(model, "half", precision="float16")
    expected = model.encode(MANY, show_progress_bar=False)
    assert 1e-6 < np.abs(half.encode(MANY) - expected).max() < 1e-2
    assert half._fast is not None and half._fast.dtype == torch.float16
    for precision in ("auto", "float32"):  # on a CPU, auto is single precision
        assert np.abs(SentenceEncoder(model, "single", precision=precision).encode(MANY) - expected).max() < 1e-5
    with pytest.raises(ModelError, match="precision = 'int8' is not known"):
        SentenceEncoder(model, "strange", precision="int8")
    assert not caplog.records


def test_text_to_learn_from_is_encoded_in_bf16_where_the_cpu_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vectors are kept apart from those that are measured, which are float32 on every CPU."""
    encoder = SentenceEncoder(sentence_model("BERT", normalize=True), "teacher", "a child ", 7)
    assert encoder.for_training() is encoder, "these tests have no CPU that computes bf16"
    monkeypatch.setenv("ISOGLOSS_CPU_PRECISION", "bf16")
    quick = encoder.for_training()
    assert (quick.name, quick.prompt, quick.batch_size, quick.precision) == ("teacher", "a child ", 7, "bf16")
    assert quick.fingerprint == f"{encoder.fingerprint}-bf16"
    found, expected = quick.encode(MANY), encoder.encode(MANY)
    assert quick._fast is not None and quick._fast.dtype == torch.bfloat16
    assert encoder._fast is not None and encoder._fast.dtype == torch.float32
    assert np.abs(found - expected).max() > 1e-5 and (found * expected).sum(1).min() > 0.9995
    single = SentenceEncoder(encoder.model, "teacher", precision="float32")
    assert single.for_training() is single


def test_half_precision_that_disagrees_gives_way_to_single(caplog: pytest.LogCaptureFixture) -> None:
    """States of size 3,000 that differ in their last digits alone: half precision rounds the difference away."""
    model = sentence_model("BERT")
    body = model[0].auto_model
    with torch.no_grad():
        body.encoder.layer[-1].output.LayerNorm.bias.fill_(3000.0)
    model.append(_centring(body.config.hidden_size))
    encoder = SentenceEncoder(model, "delicate", precision="float16")
    with caplog.at_level(logging.WARNING):
        found = encoder.encode(MANY)
    assert encoder._fast is not None and encoder._fast.dtype == torch.float32
    assert "delicate: the fast encoder gives other embeddings" in caplog.text and "float16" in caplog.text
    assert np.abs(found - model.encode(MANY, show_progress_bar=False)).max() < 1e-2


def _centring(width: int) -> Dense:
    return Dense(
        width,
        width,
        activation_function=torch.nn.Identity(),
        init_weight=torch.eye(width) - 1 / width,
        init_bias=torch.zeros(width),
    )


def test_broken_vectors_are_refused() -> None:
    good = np.ones((3, 2), dtype=np.float32)
    refuse_broken(good, ["a", "b", "c"], "fine")
    refuse_broken(good * np.float32(1e38), ["a", "b", "c"], "long")  # its square overflows, the vectors do not
    refuse_broken(good[:0], [], "none")
    for value in (np.nan, np.inf, -np.inf):
        broken = good.copy()
        broken[1, 1] = value
        with pytest.raises(ModelError, match=r"weak: 1 of 3 vectors are not finite, the first for 'b'"):
            refuse_broken(broken, ["a", "b", "c"], "weak")


@pytest.mark.parametrize("family", ["BERT", "DeBERTa"])
def test_a_damaged_model_is_refused(family: str) -> None:
    model = sentence_model(family)
    row = model.tokenizer("the cat")["input_ids"][1]
    with torch.no_grad():
        model[0].auto_model.get_input_embeddings().weight[row] = torch.nan
    encoder = SentenceEncoder(model, "damaged")
    with pytest.raises(ModelError, match=r"damaged: .* vectors are not finite"):
        encoder.encode(MANY)


def test_embed_with_a_cache_and_by_name(models: Path, tmp_path: Path) -> None:
    name = str(models / "teacher")
    expected = load(name).encode(TEXTS)
    assert np.abs(embed(name, TEXTS, tmp_path) - expected).max() < 1e-3
    assert np.abs(embed(load(name, precision="float32"), TEXTS) - expected).max() < 1e-6
    with pytest.raises(DataError, match="one text, not a list"):
        embed(name, "the cat")

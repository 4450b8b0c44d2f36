"""Many sentences at once: the vectors of the model's own `encode`, whatever the family, pooling, tail, prompt and lengths."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from bodies import FAMILIES, WINDOW, sentence_model
from isogloss.models import fast_encode as fast_module
from isogloss.models.fast_encode import FastEncoder, fast_encoder
from isogloss.models.token_store import TextTokenizer, TokenStore
from isogloss.types import FloatArray
from tiny import TEXTS

ODD = ["", " ", "the dog <pad> sleeps at night.", "zzz φιλία 漢字 👩‍👩‍👧", "<pad>", "ждёт автобус " * 30]
MANY = [*TEXTS, *ODD, *(f"{one} {other}" for one, other in zip(TEXTS, reversed(TEXTS), strict=True))]


def taken_apart(model: Any, prompt: str = "", dtype: torch.dtype = torch.float32) -> FastEncoder:  # noqa: ANN401
    found = fast_encoder(model, prompt, dtype)
    assert found is not None
    return found


def own(model: Any, texts: list[str], prompt: str = "") -> FloatArray:  # noqa: ANN401
    vectors: FloatArray = model.encode(texts, prompt=prompt or None, show_progress_bar=False)
    return vectors


@pytest.mark.parametrize("family", [*FAMILIES, "windowed"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_the_models_own(family: str, pooling: str) -> None:
    model = sentence_model(family, pooling, bridge=20 if pooling == "mean" else 0, normalize=pooling != "max")
    model.max_seq_length = 40  # some are cut
    if family == "windowed":
        model.max_seq_length = WINDOW // 2
    found = taken_apart(model, "a child ").encode(MANY)
    assert found.dtype == np.float32
    assert np.abs(found - own(model, MANY, "a child ")).max() < 1e-5


def test_a_windowed_body_is_refused_where_its_window_matters() -> None:
    assert fast_encoder(sentence_model("windowed")) is None


def test_longer_sentences_are_tried_when_they_come() -> None:
    """A window that the first, short sentences do not show: the long ones go through the model itself."""
    model, limit = sentence_model("windowed"), fast_module.TRIED_FIRST
    try:
        fast_module.TRIED_FIRST = WINDOW // 2
        encoder = taken_apart(model)
    finally:
        fast_module.TRIED_FIRST = limit
    assert np.abs(encoder.encode(MANY) - own(model, MANY)).max() < 1e-5
    assert encoder.reaches(WINDOW // 2) and not encoder.reaches(4 * WINDOW)


def test_tokens_and_windows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small windows and chunks: every vector still comes to its own row, once."""
    model = sentence_model("BERT")
    expected = own(model, MANY)
    monkeypatch.setattr(fast_module, "FIRST_WINDOW", 7)
    monkeypatch.setattr(fast_module, "WINDOW", 11)
    monkeypatch.setattr(fast_module, "FEWEST_AT_ONCE", 16)
    heard: list[int] = []
    encoder = taken_apart(model)
    assert np.abs(encoder.encode(MANY, heard.append) - expected).max() < 1e-5
    assert sum(heard) == len(MANY) and len(heard) > 20
    tokens = TextTokenizer(model.tokenizer, int(model.max_seq_length)).store(MANY)
    rows = np.random.default_rng(0).integers(0, len(MANY), 50)
    assert np.abs(encoder.vectors(tokens, rows) - expected[rows]).max() < 1e-5
    assert np.abs(encoder.vectors(tokens) - expected).max() < 1e-5
    assert encoder.encode([]).shape == (0, 32) and encoder.vectors(tokens, rows[:0]).shape == (0, 32)


@pytest.mark.parametrize("family", ["BERT", "XLM-R"])
def test_a_sentence_without_a_token_is_nowhere(family: str) -> None:
    """Tokenizers without special tokens give such; the mean of nothing is zero, as in a padded batch."""
    model = sentence_model(family)
    rows = TextTokenizer(model.tokenizer, 64).store(["", *TEXTS[:5]])
    tokens = TokenStore(
        rows.ids[rows.offsets[1] :],
        np.concatenate([[0, 0], rows.offsets[2:] - rows.offsets[1], [rows.offsets[-1] - rows.offsets[1]]]),
        1,
    )
    assert tokens.lengths[0] == 0 == tokens.lengths[-1]
    with torch.inference_mode():
        expected = model(tokens.padded(np.arange(len(tokens))))["sentence_embedding"].numpy()
    found = taken_apart(model).vectors(tokens)
    assert np.abs(found - expected).max() < 1e-5 and not found[0].any()
    assert np.isfinite(taken_apart(sentence_model(family, "cls")).vectors(tokens)).all()  # it has no first token either


def test_cores_have_chunks_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, one core each while they work; afterwards everybody has as many as before."""
    encoder, seen = taken_apart(sentence_model("BERT")), set()
    compute = encoder._compute

    def watched(chunk: Any) -> FloatArray:  # noqa: ANN401
        seen.add((threading.get_ident(), torch.get_num_threads()))
        return compute(chunk)

    monkeypatch.setattr(encoder, "_compute", watched)
    expected, before = encoder.encode(MANY), torch.get_num_threads()
    seen.clear()
    torch.set_num_threads(2)
    try:
        found = encoder.encode(MANY)
        assert torch.get_num_threads() == 2
        counts: list[int] = []
        other = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert counts == [2]
    finally:
        torch.set_num_threads(before)
    assert np.abs(found - expected).max() < 1e-6
    assert len({thread for thread, _ in seen}) == 2 and {threads for _, threads in seen} == {1}


def test_half_precision_is_near_and_leaves_the_model_alone() -> None:
    model = sentence_model("BERT", normalize=True)
    encoder = taken_apart(model, dtype=torch.float16)
    vectors, expected = encoder.encode(MANY), own(model, MANY)
    cosines = (vectors * expected).sum(axis=1)
    assert cosines.min() > 0.999 and np.abs(vectors - expected).max() > 1e-6
    assert encoder.agrees(MANY[:20])
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def too_large_for_half(model: Any) -> None:  # noqa: ANN401
    """Make the inner product of one layer as large as 1e6, and small again behind it: fine in single precision alone."""
    layer = model[0].auto_model.encoder.layer[0]
    with torch.no_grad():
        layer.intermediate.dense.weight.mul_(1e6)
        layer.output.dense.weight.mul_(1e-6)


def test_what_overflows_half_precision_is_computed_again() -> None:
    model = sentence_model("BERT")
    too_large_for_half(model)
    encoder = taken_apart(model, dtype=torch.float16)
    assert encoder.way is not None
    with torch.inference_mode():
        chunk = next(iter(encoder._cut(encoder.text_tokenizer.store(TEXTS[:1]), np.array([0]), np.array([0]))))
        assert not torch.isfinite(encoder.way(chunk.packed(encoder.device))).all()
    assert np.abs(encoder.encode(MANY) - own(model, MANY)).max() < 1e-4


def test_disagreement_is_noticed() -> None:
    model = sentence_model("BERT")
    for dtype in (torch.float32, torch.float16):
        encoder = taken_apart(model, dtype=dtype)
        assert encoder.agrees(TEXTS[:9])
        encoder.pooling = "max"
        assert not encoder.agrees(TEXTS[:9])
    lower = taken_apart(model)
    lower.text_tokenizer = type(lower.text_tokenizer)(model.tokenizer, 3, "")
    assert not lower.agrees(TEXTS[:9])


def test_other_kinds_of_models_are_left_as_they_are() -> None:
    assert fast_encoder(sentence_model("DeBERTa")) is None
    assert fast_encoder(sentence_model("BERT", "weightedmean")) is None
    without = sentence_model("BERT", include_prompt=False)
    assert fast_encoder(without, "a child ") is None and fast_encoder(without) is not None
    apart = sentence_model("BERT")
    apart.append(Dense(32, 32, module_input_name="token_embeddings"))
    assert fast_encoder(apart) is None
    twice = sentence_model("BERT", bridge=20, normalize=True)
    twice.append(Dense(20, 8))
    twice.append(Normalize())
    assert np.abs(taken_apart(twice).encode(MANY) - own(twice, MANY)).max() < 1e-5


def test_a_cut_dimension_kept() -> None:
    model = sentence_model("BERT", normalize=True)
    model.truncate_dim = 10
    assert taken_apart(model).encode(TEXTS).shape == (len(TEXTS), 10)
    assert np.abs(taken_apart(model).encode(TEXTS) - own(model, TEXTS)).max() < 1e-5


def test_a_failure_in_a_thread_is_not_swallowed() -> None:
    encoder = taken_apart(sentence_model("BERT"))
    encoder.way = lambda packed: (_ for _ in ()).throw(ZeroDivisionError(packed.longest))
    with pytest.raises(ZeroDivisionError):
        encoder.encode(TEXTS)

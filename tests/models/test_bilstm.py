"""LASER's encoder against loops written from the LSTM's equations; alone and in a batch; ours and the library's own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from isogloss.errors import ModelError
from isogloss.models.bilstm import BiLstmStudent, EncoderSizes, bilstm_student
from isogloss.models.encoder import load
from isogloss.models.loading import open_model
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from tiny import TEXTS, unigram

SIZES = EncoderSizes(embedding=6, hidden=5, layers=2, dropout=0.3)
LONG = " ".join(TEXTS[:9])
SOME = ["", "the cat", *TEXTS[:12], LONG]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return learn_vocabulary(lambda: [TEXTS], 120)


@pytest.fixture
def student(tokenizer: PreTrainedTokenizerFast) -> BiLstmStudent:
    return bilstm_student(tokenizer, SIZES, max_tokens=24)


def neighbors(inputs: list[Tensor], weights: dict[str, Tensor], layer: int, suffix: str) -> list[Tensor]:
    """An LSTM layer by its equations, one token after the other."""
    read, kept = weights[f"weight_ih_l{layer}{suffix}"], weights[f"weight_hh_l{layer}{suffix}"]
    bias = weights[f"bias_ih_l{layer}{suffix}"] + weights[f"bias_hh_l{layer}{suffix}"]
    h = c = torch.zeros(kept.shape[1])
    states = []
    for x in inputs:
        i, f, g, o = (read @ x + kept @ h + bias).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return states


def by_definition(student: BiLstmStudent, text: str) -> Tensor:
    ids = student.tokenizer(text)["input_ids"][:24]
    weights = dict(student.model[1].encoder.named_parameters())
    states = [student.table[row] for row in ids]
    for layer in range(SIZES.layers):
        there = neighbors(states, weights, layer, "")
        back = neighbors(states[::-1], weights, layer, "_reverse")[::-1]
        states = [torch.cat(both) for both in zip(there, back, strict=True)]
    return torch.stack([max(column) for column in torch.stack(states).T])


def test_vectors_and_gradients_equal_the_definition(student: BiLstmStudent) -> None:
    tokens = student.tokenize(SOME)
    assert tokens.lengths.max() == 24 and tokens.lengths.min() == 1
    order = np.array([3, 0, len(SOME) - 1, 3, 1])
    found = student.batch(tokens, order, None)
    wanted = torch.stack([by_definition(student, SOME[row]) for row in order])
    assert found.shape == (5, 10) and torch.allclose(found, wanted, atol=1e-6)
    push = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    parameters = list(student.model.parameters())
    slopes = [torch.autograd.grad((push * vectors).sum(), parameters, retain_graph=True) for vectors in (found, wanted)]
    assert all(torch.allclose(ours, theirs, atol=1e-5) for ours, theirs in zip(*slopes, strict=True))


def test_a_batch_gives_what_each_sentence_has_alone(student: BiLstmStudent, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = SOME * 40  # enough for what other students compute in another way
    together = student.encode(texts)
    alone = np.concatenate([student.encode([text]) for text in SOME])
    assert np.allclose(together, np.tile(alone, (40, 1)), atol=1e-6) and np.isfinite(alone).all()
    monkeypatch.setattr("isogloss.models.bilstm.AT_ONCE", 30)
    assert np.allclose(student.encode(SOME), alone, atol=1e-6), "in chunks"
    assert student.tokens_computed(np.array([3, 1, 7])) == 11, "padding is never computed"


def test_the_saved_folder_is_sentence_transformers_own(student: BiLstmStudent, tmp_path: Path) -> None:
    student.save_pretrained(tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=False)
    assert [type(module).__module__.split(".")[0] for module in plain] == ["sentence_transformers"] * 3
    wanted = student.encode(SOME)
    assert np.allclose(plain.encode(SOME), wanted, atol=1e-6)
    tokens = student.tokenize(SOME)
    theirs = plain.preprocess(SOME)
    assert [row[:count].tolist() for row, count in zip(theirs["input_ids"], theirs["sentence_lengths"], strict=True)] == [
        tokens.row(place).tolist() for place in range(len(SOME))
    ]
    again = BiLstmStudent.from_pretrained(str(tmp_path / "model"), device="cpu")
    assert np.array_equal(again.encode(SOME), wanted) and again.dimension == 10 and again.pooling == "max"
    assert again.text_tokenizer.key == student.text_tokenizer.key and again.fingerprint == student.fingerprint
    encoders = [load(str(tmp_path / "model"), device="cpu") for _ in range(2)]
    assert np.allclose(encoders[0].encode(SOME * 30)[: len(SOME)], wanted, atol=1e-6)
    assert encoders[0].fingerprint == encoders[1].fingerprint  # so that kept vectors are found again


def test_the_seed_is_all_there_is_to_chance(tokenizer: PreTrainedTokenizerFast) -> None:
    first, same, other = (bilstm_student(tokenizer, SIZES, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.encode(SOME), same.encode(SOME)) and not np.allclose(first.encode(SOME), other.encode(SOME))
    assert first.fingerprint == same.fingerprint != other.fingerprint
    shorter = bilstm_student(tokenizer, SIZES, max_tokens=7, seed=1)
    spelt = bilstm_student(learn_vocabulary(lambda: [TEXTS[::-1][:50]], 120), SIZES, seed=1)
    assert len({first.fingerprint, shorter.fingerprint, spelt.fingerprint}) == 3


def test_dropout_is_for_training_and_between_layers(tokenizer: PreTrainedTokenizerFast) -> None:
    student = bilstm_student(tokenizer, SIZES)
    tokens, rows = student.tokenize(SOME), np.arange(5)
    calm = student.batch(tokens, rows, None)
    student.model.train()
    torch.manual_seed(0)
    assert not torch.allclose(student.batch(tokens, rows, None), calm)
    single = bilstm_student(tokenizer, EncoderSizes(embedding=4, hidden=3, layers=1, dropout=0.3))  # and no warning
    assert single.dimension == 6


def test_other_models_are_refused(models: Path, student: BiLstmStudent, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a BiLSTM"):
        BiLstmStudent.from_pretrained(str(models / "student"))
    student.save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match="not a transformer"):
        Student(open_model(str(tmp_path / "model")), "mine")
    loaded = Student.from_pretrained(str(tmp_path / "model"), device="cpu")
    assert type(loaded) is BiLstmStudent and loaded.fingerprint == student.fingerprint
    with pytest.raises(ModelError, match="padding is row 1"):
        bilstm_student(unigram(), SIZES)
    with pytest.raises(ModelError, match="no transformer layers"):
        _ = student.body
    with pytest.raises(ModelError, match="cannot be trimmed"):
        student.trim({"en": TEXTS})

"""The static student: the mean of rows, in training as in the saved model, and distilled like any student."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

from isogloss.errors import ModelError
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import load
from isogloss.models.frozen_layers import SplitBody
from isogloss.models.loading import open_model
from isogloss.models.static import StaticStudent, static_student, token_vectors
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.types import FloatArray
from tiny import PAIRS, TEXTS, unigram
from vocabularies import byte_level, wordpiece

LONG = " ".join(TEXTS)
HARD = ["", "   ", LONG, "Ω", "the cat", "кошка спит ночью."]


def mean_of_rows(student: StaticStudent, text: str, prompt: str, limit: int) -> FloatArray:
    """The definition, a token at a time."""
    table, ids = student.table.detach().numpy(), unigram()(prompt + text, add_special_tokens=False)["input_ids"][:limit]
    total = np.zeros(table.shape[1], dtype=np.float64)
    for row in ids:
        total += table[row]
    mean: FloatArray = (total / max(len(ids), 1)).astype(np.float32)
    return mean


@given(st.lists(st.sampled_from(TEXTS + HARD), min_size=1, max_size=8), st.sampled_from(["", "a child "]), st.integers(2, 9))
@settings(deadline=None, max_examples=30)
def test_a_vector_is_the_mean_of_rows(texts: list[str], prompt: str, limit: int) -> None:
    student = static_student(unigram(), 12, prompt=prompt, max_tokens=limit)
    wanted = np.stack([mean_of_rows(student, text, prompt, limit) for text in texts])
    assert np.allclose(student.encode(texts), wanted, atol=1e-6)


@pytest.mark.parametrize("prompt", ["", "a child "])
@pytest.mark.parametrize("kind", [unigram, wordpiece, byte_level])
def test_plain_sentence_transformers_gives_the_same_vectors(kind: object, prompt: str, tmp_path: Path) -> None:
    tokenizer = kind()  # type: ignore[operator]
    tokenizer(TEXTS[:3], truncation=True, max_length=4, padding="max_length")  # what an earlier call left must not stay
    student = static_student(tokenizer, 12, prompt=prompt, max_tokens=20)
    student.save_pretrained(tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.allclose(loaded.encode(TEXTS + HARD), student.encode(TEXTS + HARD), atol=1e-6)
    assert StaticStudent.from_pretrained(str(tmp_path / "model"), max_tokens=64).text_tokenizer.max_tokens == 64, (
        "a table has no places"
    )
    again = StaticStudent.from_pretrained(str(tmp_path / "model"))
    assert again.prompt == prompt and again.text_tokenizer.max_tokens == 20
    assert np.allclose(again.encode(TEXTS + HARD), student.encode(TEXTS + HARD), atol=1e-6)
    tokens = again.tokenize(TEXTS + HARD)
    assert int(tokens.lengths.max()) == 20
    vectors = again.batch(tokens, np.arange(len(tokens)))
    assert np.allclose(vectors.detach().numpy(), loaded.encode(TEXTS + HARD), atol=1e-6)


def test_empty_text_is_zero_also_alone_and_normalised() -> None:
    student = static_student(unigram(), 12)
    student.add_normalization()
    assert np.array_equal(student.encode(["", ""]), np.zeros((2, 12), dtype=np.float32))
    assert student.encode([]).shape == (0, 12)
    assert np.linalg.norm(student.encode(["the cat", ""]), axis=1) == pytest.approx([1, 0], abs=1e-6)


def test_gradients_reach_the_rows_that_were_used_and_no_others() -> None:
    student = static_student(unigram(), 6)
    tokens = student.tokenize(["the cat", "", "the the dog"])
    vectors = student.batch(tokens, np.array([2, 1, 0]))
    (gradient,) = torch.autograd.grad(vectors.sum(), [student.table])
    row_of = unigram().get_vocab()
    assert torch.allclose(gradient[row_of["▁the"]], torch.full((6,), 1 / 2 + 2 / 3))
    assert torch.allclose(gradient[row_of["▁dog"]], torch.full((6,), 1 / 3))
    used = {row_of[piece] for piece in ("▁the", "▁cat", "▁dog")}
    assert set(torch.nonzero(gradient.abs().sum(1)).flatten().tolist()) == used


def test_rows_from_an_encoder_are_its_vectors_of_single_tokens(models: Path) -> None:
    encoder = open_model(str(models / "student"))
    rows = np.array([5, 60, 100])
    steps: list[int] = []
    found = token_vectors(encoder, encoder.tokenizer, rows, lambda step: steps.append(step.done))
    assert steps == [3]
    for row, vector in zip(rows, found, strict=True):
        features = {"input_ids": torch.tensor([[0, int(row), 2]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
        assert np.allclose(vector, encoder(features)["sentence_embedding"][0].detach().numpy(), atol=1e-5)
    other = wordpiece()
    words = [other.get_vocab()[word] for word in ("cat", "apple", "##a")]
    texts = token_vectors(encoder, other, np.array(words))
    assert np.allclose(texts, encoder.encode(["cat", "apple", "a"]), atol=1e-5)


@pytest.mark.parametrize("dimension", [5, 24])
def test_the_table_is_principal_components_weighted_by_rarity(models: Path, dimension: int) -> None:
    encoder = open_model(str(models / "student"))
    tokenizer = unigram()
    control = set(tokenizer.all_special_ids)
    spoken = np.array([row for row in range(len(tokenizer)) if row not in control])
    plain = static_student(tokenizer, dimension, encoder, sif=0).table.detach().numpy()
    vectors = token_vectors(encoder, tokenizer, spoken).astype(np.float64)
    centred = vectors - vectors.mean(0)
    assert not plain[sorted(control)].any()
    # The best approximation of that rank (Eckart and Young): the same scalar products as the truncated SVD.
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    best = (left[:, :dimension] * values[:dimension] ** 2) @ left[:, :dimension].T
    assert np.allclose(plain[spoken] @ plain[spoken].T, best, atol=1e-4)
    weighted = static_student(tokenizer, dimension, encoder, sif=1e-3).table.detach().numpy()
    scores = dict(json.loads(tokenizer.backend_tokenizer.to_str())["model"]["vocab"])
    names = tokenizer.convert_ids_to_tokens(spoken.tolist())
    chances = np.array([np.exp(scores[name]) for name in names])
    chances /= chances.sum()
    for place, row in enumerate(spoken):
        assert np.allclose(weighted[row], plain[row] * 1e-3 / (1e-3 + chances[place]), atol=1e-6)


def test_without_scores_rarity_is_zipfs_law(models: Path) -> None:
    encoder, tokenizer = open_model(str(models / "student")), wordpiece()
    plain = static_student(tokenizer, 8, encoder, sif=0).table.detach().numpy()
    weighted = static_student(tokenizer, 8, encoder, sif=1e-3).table.detach().numpy()
    spoken = np.flatnonzero(np.abs(plain).sum(1))
    ratio = np.linalg.norm(weighted[spoken], axis=1) / np.linalg.norm(plain[spoken], axis=1)
    harmonic = sum(1 / rank for rank in range(2, len(spoken) + 2))
    wanted = [1e-3 / (1e-3 + 1 / (rank * harmonic)) for rank in range(2, len(spoken) + 2)]
    assert ratio == pytest.approx(wanted, rel=1e-4)


def test_random_rows_are_seeded_and_about_unit_length() -> None:
    one, same, other = (static_student(unigram(), 64, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.table, same.table) and not torch.equal(one.table, other.table)
    lengths = one.table[4:].norm(dim=1)
    assert float(lengths.mean().detach()) == pytest.approx(1, abs=0.05)


def test_the_bridge_is_folded_into_the_table(models: Path) -> None:
    student = static_student(unigram(), 10, open_model(str(models / "student")))
    random = np.random.default_rng(0)
    bridge = Bridge(random.normal(size=(16, 10)).astype(np.float32), random.normal(size=16).astype(np.float32), 0.1, {})
    untouched = student.encode(TEXTS)
    student.add_bridge(bridge, normalize=False)
    assert student.dimension == 16 and len(student.model) == 1
    assert np.allclose(student.encode(TEXTS), bridge.apply(untouched), atol=1e-4)
    assert not student.encode([""]).any()
    student.add_normalization()
    unit = student.encode(TEXTS)
    back = Bridge(np.eye(16, dtype=np.float32)[:8], np.zeros(8, dtype=np.float32), 0.1, {})
    student.add_bridge(back, normalize=False)
    assert np.allclose(student.encode(TEXTS), unit[:, :8], atol=1e-5), "behind a normalization it stays a layer"
    with pytest.raises(ModelError, match="the bridge takes 16-d vectors, the student gives 8-d"):
        student.add_bridge(back, normalize=False)


@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_distilled_saved_and_loaded(models: Path, sparse: bool, tmp_path: Path) -> None:
    """Steps of the paper's loss through `batch`, as training takes them; with gradients of used rows alone, too."""
    targets = torch.from_numpy(load(str(models / "teacher"), device="cpu").encode([pair.source for pair in PAIRS]))
    student = static_student(unigram(), 16, open_model(str(models / "student")), max_tokens=32)
    student.add_normalization()
    student.model[0].embedding.sparse = sparse
    tokens = student.tokenize([pair.target for pair in PAIRS])

    def distance() -> torch.Tensor:
        return (student.batch(tokens, np.arange(len(tokens))) - targets).square().sum(1).mean()

    before = float(distance().detach())
    moved = [parameter for _, parameter in student.trained_parameters(None)]
    optimizer: torch.optim.Optimizer = torch.optim.SparseAdam(moved, lr=0.05) if sparse else torch.optim.AdamW(moved, lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.autograd.backward(distance())
        optimizer.step()
    assert float(distance().detach()) < 0.2 * before
    student.save_pretrained(tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.allclose(loaded.encode(TEXTS), student.encode(TEXTS), atol=1e-5)


def test_trimming_leaves_covered_text_as_it_was(tmp_path: Path) -> None:
    student = static_student(unigram(), 12, prompt="a child ", max_tokens=20)
    english = [pair.source for pair in PAIRS] + [LONG[:200]]
    wanted, fingerprint = student.encode(english), student.fingerprint
    done = student.trim({"en": english}, "corpus")
    assert done.rows_after == len(student.table) == len(student.tokenizer) < done.rows_before
    assert done.coverage == 1.0 and list(done.languages) == ["en"]
    assert np.array_equal(student.encode(english), wanted)
    assert student.fingerprint != fingerprint
    student.save_pretrained(tmp_path / "model")
    assert np.allclose(SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(english), wanted, atol=1e-6)


def test_the_fingerprint_sees_every_piece() -> None:
    """sentence-transformers' own view of such a tokenizer shows its first hundred pieces only."""
    one, other = (static_student(unigram(extra=extra), 4, seed=1) for extra in (("zzz", "▁λόγος"), ("zzy", "▁λόγος")))
    assert torch.equal(one.table, other.table)
    assert one.fingerprint != other.fingerprint
    assert one.text_tokenizer.key != other.text_tokenizer.key


def test_kinds_are_not_mixed_up(models: Path, tmp_path: Path) -> None:
    static_student(unigram(), 4).save_pretrained(tmp_path / "static")
    with pytest.raises(ModelError, match="first module is StaticEmbedding, not a transformer"):
        Student(open_model(str(tmp_path / "static")), "mine")
    assert type(Student.from_pretrained(str(tmp_path / "static"), device="cpu")) is StaticStudent
    with pytest.raises(ModelError, match="first module is Transformer, not a static token table"):
        StaticStudent.from_pretrained(str(models / "student"))
    with pytest.raises(ModelError, match="is a static token table and has no transformer layers"):
        SplitBody(static_student(unigram(), 4).body, 1)
    with pytest.raises(ModelError, match=r"student\.dimension = 25, but the encoder's embeddings have 24") as caught:
        static_student(unigram(), 25, open_model(str(models / "student")))
    assert "set it to at most 24, or to 0" in caught.value.hint


def test_the_vectors_of_tokens_are_kept_for_other_students(models: Path, tmp_path: Path) -> None:
    notes: list[Step] = []

    def made(dimension: int = 10, tokenizer: PreTrainedTokenizerFast | None = None, model: str = "student") -> torch.Tensor:
        notes.clear()
        encoder = open_model(str(models / model))
        student = static_student(tokenizer or unigram(), dimension, encoder, on_progress=notes.append, cache=tmp_path)
        return student.table.detach()

    plain = static_student(unigram(), 10, open_model(str(models / "student"))).table.detach()
    assert torch.equal(made(), plain) and not any(step.note for step in notes)
    (kept,) = tmp_path.rglob("*.npy")
    assert torch.equal(made(), plain) and [step.note for step in notes] == ["reused from the cache"]
    assert torch.equal(made(6), static_student(unigram(), 6, open_model(str(models / "student"))).table.detach())
    assert [step.note for step in notes] == ["reused from the cache"], "whatever their dimension"
    kept.write_bytes(kept.read_bytes()[:-3])
    assert torch.equal(made(), plain) and not any(step.note for step in notes), "damaged, they are computed again"
    made(model="teacher")
    made(tokenizer=unigram(extra=("zzy",)))
    assert not any(step.note for step in notes) and len(list(tmp_path.rglob("*.npy"))) == 3


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    static_student(unigram(), 10, open_model(str(models / "student")), cache=tmp_path / "file")
    assert "the token table is not cached" in caplog.text

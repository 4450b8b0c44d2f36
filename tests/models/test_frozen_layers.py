"""Remembered activations: the body goes on from them to the same vectors and the same gradients, for several families."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isogloss.errors import IsoglossError, ModelError
from isogloss.kernels.packed import Way
from isogloss.kernels.postnorm import post_norm
from isogloss.models import fast_encode
from isogloss.models import frozen_layers as frozen
from isogloss.models.frozen_layers import SplitBody, layers_of, remember, split_layers
from isogloss.models.student import Student
from isogloss.models.token_encoder import SAMPLE
from isogloss.models.token_store import TextTokenizer, TokenStore
from isogloss.types import FloatArray, IntArray
from tiny import TEXTS, unigram

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 80,
    "pad_token_id": 1,
}


def bodies() -> dict[str, PreTrainedModel]:
    torch.manual_seed(0)
    rows = len(unigram())
    return {
        "bert": BertModel(BertConfig(vocab_size=rows, **SIZES)),
        "xlm-r": XLMRobertaModel(XLMRobertaConfig(vocab_size=rows, **SIZES)),
        "mpnet": MPNetModel(MPNetConfig(vocab_size=rows, **SIZES)),
        "distilbert": DistilBertModel(
            DistilBertConfig(
                vocab_size=rows, dim=24, n_layers=3, n_heads=4, hidden_dim=32, max_position_embeddings=80, pad_token_id=1
            )
        ),
    }


@pytest.fixture
def tokens() -> TokenStore:
    return TextTokenizer(unigram(), max_tokens=64).store(TEXTS[:40])


@pytest.mark.parametrize("family", ["bert", "xlm-r", "mpnet", "distilbert"])
@pytest.mark.parametrize("train_layers", [1, 2])
def test_going_on_from_activations_is_the_whole_body(
    family: str, train_layers: int, tokens: TokenStore, tmp_path: Path
) -> None:
    body = bodies()[family].eval()
    split = SplitBody(body, train_layers)
    rows = np.array([5, 0, 17, 33])
    features = tokens.padded(rows)
    mask = features["attention_mask"][..., None]
    whole = body(**features).last_hidden_state * mask
    top = [parameter for layer in split.layers[split.cut :] for parameter in layer.parameters()]
    wanted = torch.autograd.grad(whole.square().sum(), top)
    activations = remember(split, tokens, tmp_path)
    with split.upper(activations.padded(rows)):
        again = body(**features).last_hidden_state * mask
    found = torch.autograd.grad(again.square().sum(), top)
    assert torch.allclose(whole, again, atol=1e-5)
    assert all(torch.allclose(one, other, atol=1e-3) for one, other in zip(wanted, found, strict=True))
    assert len(layers_of(body)) == 3, "the stack is whole again"


def spoiled(body: PreTrainedModel, dtype: torch.dtype, part: slice) -> Way | None:
    """`post_norm` with a small error in one number of every output."""
    layers = post_norm(body, dtype, part)
    return layers and (lambda packed: layers(packed).index_fill(1, torch.tensor([0]), 0.5))


@pytest.mark.parametrize("family", ["bert", "xlm-r", "mpnet", "distilbert"])
def test_layers_without_padding_are_used_and_wrong_ones_are_not(
    family: str, tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, features = SplitBody(bodies()[family].eval(), 1), tokens.padded(np.array([5, 0, 17, 33]))
    padded = split.lower(features) * features["attention_mask"][..., None]
    lower = SplitBody.lower
    calls: list[int] = []

    def counted(self: SplitBody, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        calls.append(len(batch["input_ids"]))
        return lower(self, batch)

    monkeypatch.setattr(SplitBody, "lower", counted)
    quick = remember(split, tokens, tmp_path / "quick")
    assert torch.allclose(quick.padded([5, 0, 17, 33]), padded, atol=1e-5)
    assert calls == [2, frozen.SAMPLE], "padded for the two checks only"
    monkeypatch.setattr(frozen, "post_norm", spoiled)
    careful = remember(split, tokens, tmp_path / "careful")
    assert torch.allclose(careful.padded([5, 0, 17, 33]), padded, atol=1e-6) and sum(calls[2:]) > len(tokens)


def test_in_bf16_they_take_half_the_space_and_are_near(
    tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If bf16 is too far off, float32 computes them, and only what is stored is rounded."""
    split, rows = SplitBody(bodies()["bert"].eval(), 1), np.arange(len(tokens))
    tried: list[torch.dtype] = []

    def noted(body: PreTrainedModel, dtype: torch.dtype, part: slice) -> Way | None:
        tried.append(dtype)
        return post_norm(body, dtype, part)

    monkeypatch.setattr(frozen, "post_norm", noted)
    single = remember(split, tokens, tmp_path / "single").packed(rows)
    half = remember(split, tokens, tmp_path / "half", dtype=torch.bfloat16)
    stored = np.load(half.parts[0])
    assert stored.dtype == np.int16 and tried == [torch.float32, torch.bfloat16]
    found = half.packed(rows)
    assert found.dtype == torch.float32 and not torch.equal(found, single.bfloat16().float())
    assert torch.nn.functional.cosine_similarity(found, single).min() > 0.999
    monkeypatch.setitem(fast_encode.ALIKE_HALF, torch.bfloat16, 1.1)  # nothing is that near
    careful = remember(split, tokens, tmp_path / "careful", dtype=torch.bfloat16).packed(rows)
    assert torch.equal(careful, single.bfloat16().float())


def test_text_with_padding_tokens_is_computed_with_padding(tokens: TokenStore) -> None:
    """RoBERTa gives a padding token no position, also if the text has it."""
    body, ids = bodies()["xlm-r"].eval(), tokens.ids.copy()
    assert split_layers(body, slice(1), tokens) is not None
    ids[7] = 1
    assert split_layers(body, slice(1), TokenStore(ids, tokens.offsets, tokens.pad_id)) is None


def test_embeddings_from_outputs_are_those_of_the_own_modules(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = Student.from_pretrained(str(models / "student"))
    tokens = student.tokenize([f"{text} {number}" for number in range(20) for text in TEXTS[:40]])
    split = SplitBody(student.body, 1)
    stored = split, remember(split, tokens, tmp_path)
    rows, own = np.arange(len(tokens))[::-1].copy(), Student._by_own_modules
    with torch.inference_mode():
        expected = student._by_own_modules(tokens, rows, stored, lambda _count: None)
    seen: list[int] = []

    def counted(self: Student, tokens: TokenStore, rows: IntArray, *more: Any) -> FloatArray:  # noqa: ANN401
        seen.append(len(rows))
        return own(self, tokens, rows, *more)

    monkeypatch.setattr(Student, "_by_own_modules", counted)
    done: list[int] = []
    found = student.vectors_of(tokens, rows, stored, lambda step: done.append(step.done))
    assert np.allclose(found, expected, atol=1e-5) and done[-1] == len(rows) and max(seen) == SAMPLE
    for frozen_part in (stored, None):
        half = student.vectors_of(tokens, rows, frozen_part, dtype=torch.bfloat16)
        cosines = (half * expected).sum(1) / np.linalg.norm(half, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.9995 and np.abs(half - found).max() > 1e-4 and max(seen) <= SAMPLE
    monkeypatch.setattr(frozen, "post_norm", spoiled)
    for dtype in (torch.float32, torch.bfloat16):
        assert np.allclose(student.vectors_of(tokens, rows, stored, dtype=dtype), expected, atol=1e-6)
        assert max(seen) == len(rows)


def test_parts_that_are_there_are_not_computed_again(
    tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "PART_SENTENCES", 16)
    split = SplitBody(bodies()["bert"].eval(), 1)
    first = remember(split, tokens, tmp_path)
    wanted = first.padded([3, 30, 12])
    (tmp_path / "part-00001.npy").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")}
    notes: list[str] = []
    again = remember(split, tokens, tmp_path, lambda step: notes.append(step.note))
    assert torch.equal(again.padded([3, 30, 12]), wanted)
    assert all((tmp_path / name).stat().st_mtime_ns == when for name, when in before.items())
    assert notes[-1] == "24 reused"


def test_a_body_that_cannot_go_on_from_activations_is_refused(tokens: TokenStore, tmp_path: Path) -> None:
    """A body that scales what its second layer gives by the layer's index would be silently wrong when cut."""

    class Indexed(BertModel):  # type: ignore[misc]
        def forward(self, *arguments: object, **named: object) -> object:
            output = super().forward(*arguments, **named)
            output.last_hidden_state = output.last_hidden_state * len(self.encoder.layer)
            return output

    body = Indexed(BertConfig(vocab_size=len(unigram()), **SIZES)).eval()
    with pytest.raises(ModelError, match="Indexed cannot be split between its layers"):
        remember(SplitBody(body, 1), tokens, tmp_path)


def test_impossible_cuts_and_full_disks_are_refused(
    tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bodies()["bert"].eval()
    with pytest.raises(ModelError, match="train_layers = 3, but the student has 3 layers"):
        SplitBody(body, 3)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage)
    with pytest.raises(IsoglossError, match="activations need"):
        remember(SplitBody(body, 1), tokens, tmp_path)

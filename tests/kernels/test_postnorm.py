"""Layers taken out of their modules: the body's own states, for every family, in runs or not; weights shared, not copied."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bodies import FAMILIES, HEADS, WIDTH, body, vocabulary
from isogloss.kernels.packed import Packed, packs_exactly, runs_of
from isogloss.kernels.postnorm import Product, copied, post_norm


@pytest.mark.hypothesis
@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_the_bodys_own(family: str) -> None:
    own = body(family)
    way = post_norm(own, torch.float32)
    assert way is not None
    assert packs_exactly(own, vocabulary(), 64, way)

    @settings(max_examples=6, deadline=None)
    @given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.booleans())
    def check(lengths: list[int], in_runs: bool) -> None:
        lengths = sorted(lengths) if in_runs else lengths
        ids = torch.randint(4, vocabulary(), (sum(lengths),), generator=torch.Generator().manual_seed(1))
        with torch.inference_mode():
            found = way(Packed.of(ids, torch.tensor(lengths), runs_of(lengths) if in_runs else ()))
            start = 0
            for length in lengths:
                expected = own(input_ids=ids[None, start : start + length]).last_hidden_state[0]
                assert torch.allclose(found[start : start + length], expected, atol=1e-5)
                start += length

    check()


@pytest.mark.parametrize("family", ["DeBERTa", "windowed"])
def test_other_parts_are_not_guessed_at(family: str) -> None:
    assert post_norm(body(family), torch.float32) is None


def test_what_the_names_do_not_tell_is_found_by_trying() -> None:
    """A body with the parts of BERT that scales its scores otherwise, or that looks back only."""
    own = body("BERT")
    for layer in own.encoder.layer:
        layer.attention.self.scaling = 0.1
    way = post_norm(own, torch.float32)
    assert way is not None and not packs_exactly(own, vocabulary(), 20, way)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [None, nn.GELU(), nn.GELU("tanh"), nn.ReLU()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_is_its_modules_side_by_side(bias: bool, activation: nn.Module | None, dtype: torch.dtype) -> None:
    """Single precision goes through oneDNN where it is there, with or without the activation; double through torch."""
    torch.manual_seed(0)
    parts, x = [nn.Linear(12, height, bias=bias) for height in (5, 8)], torch.randn(9, 12)
    expected: Tensor = torch.cat([part(x) for part in parts], dim=1)
    expected = expected if activation is None else activation(expected)
    with torch.inference_mode():
        found = Product(parts, dtype, activation)(x.to(dtype))
    assert found.dtype == dtype and torch.allclose(found.float(), expected, atol=1e-5)


def test_copies_share_what_has_the_type_already() -> None:
    own = body("XLM-R")
    shared, half = copied(own.embeddings, torch.float32), copied(own.embeddings, torch.float16)
    assert shared is not own.embeddings and shared.word_embeddings.weight is own.embeddings.word_embeddings.weight
    assert half.word_embeddings.weight.dtype == torch.float16
    assert torch.equal(half.word_embeddings.weight, own.embeddings.word_embeddings.weight.half())
    assert own.embeddings.word_embeddings.weight.dtype == torch.float32
    assert half.position_ids.dtype == torch.int64


def test_half_precision_is_near() -> None:
    own = body("BERT")
    lengths = [2, 5, 5, 9]
    ids = torch.randint(4, vocabulary(), (sum(lengths),), generator=torch.Generator().manual_seed(1))
    packed = Packed.of(ids, torch.tensor(lengths), runs_of(lengths))
    single, half = post_norm(own, torch.float32), post_norm(own, torch.float16)
    assert single is not None and half is not None
    with torch.inference_mode():
        found = half(packed)
        assert found.dtype == torch.float16
        assert torch.nn.functional.cosine_similarity(found.float(), single(packed)).min() > 0.9999
    assert own.dtype == torch.float32 and WIDTH % HEADS == 0

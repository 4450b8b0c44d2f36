"""Packed equals padded, states and gradients, for every family; attention by its definition; what does not pack is refused."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bodies import FAMILIES, WINDOW, body, vocabulary
from isogloss.kernels.packed import Packed, attend, hidden_states, packing, packs_exactly, pooled, runs_of

LENGTHS = st.lists(st.integers(1, 24), min_size=1, max_size=9)


def sentences(lengths: Sequence[int], seed: int = 0) -> list[Tensor]:
    """Random token ids, none of them the padding token's."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, vocabulary(), (length,), generator=generator) for length in lengths]


def laid_out(each: Sequence[Tensor], in_runs: bool = False) -> Packed:
    lengths = [len(one) for one in each]
    return Packed.of(torch.cat(list(each)), torch.tensor(lengths), runs_of(lengths) if in_runs else ())


def padded(own: Any, each: Sequence[Tensor]) -> Tensor:  # noqa: ANN401
    """The oracle: the body as it is, on a padded batch with its mask; then the padding is left out."""
    rows = torch.nn.utils.rnn.pad_sequence(list(each), batch_first=True, padding_value=1)
    mask = rows != 1
    states: Tensor = own(input_ids=rows, attention_mask=mask.long()).last_hidden_state[mask]
    return states


def gradients(own: Any, states: Tensor) -> dict[str, Tensor]:  # noqa: ANN401
    own.zero_grad(set_to_none=True)
    weighted = (states * torch.sin(torch.arange(states.numel())).view_as(states)).sum()
    torch.autograd.backward(weighted)
    return {name: one.grad.clone() for name, one in own.named_parameters() if one.grad is not None}


def close(one: Tensor, other: Tensor, size: float) -> bool:
    return bool((one - other).abs().max() <= 1e-5 * max(1.0, size))


@pytest.mark.hypothesis
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_equals_padded_in_states_and_gradients(family: str) -> None:
    own = body(family)

    @settings(max_examples=6, deadline=None)
    @given(LENGTHS, st.booleans())
    def check(lengths: list[int], in_runs: bool) -> None:
        each = sentences(sorted(lengths) if in_runs else lengths)
        expected = padded(own, each)
        wanted = gradients(own, expected)
        with packing(own):
            found = hidden_states(own, laid_out(each, in_runs))
            given_back = gradients(own, found)
        assert close(found, expected, float(expected.detach().abs().max()))
        assert {name for name in wanted if "pooler" not in name} == set(given_back)
        largest = max(float(one.abs().max()) for one in wanted.values())
        assert all(close(given_back[name], wanted[name], largest) for name in given_back)

    check()


@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.integers(0, 99))
def test_attention_is_its_definition(lengths: list[int], in_runs: bool, biased: bool, seed: int) -> None:
    """Token i mixes the values of its own sentence by softmax of scaled, biased scores; in double precision, a loop each."""
    lengths = sorted(lengths) if in_runs else lengths
    torch.manual_seed(seed)
    heads, width, longest = 2, 4, max(lengths)
    query, key, value = (torch.randn(sum(lengths), heads, width) for _ in range(3))
    bias = torch.randn(1, heads, longest, longest) if biased else None
    packed = laid_out([torch.zeros(length, dtype=torch.long) for length in lengths], in_runs)
    found = attend(query, key, value, packed, 0.3, bias=bias)
    for begin, end in pairwise(packed.starts.tolist()):
        for head in range(heads):
            for token in range(begin, end):
                scores = 0.3 * (key[begin:end, head].double() @ query[token, head].double())
                if bias is not None:
                    scores = scores + bias[0, head, token - begin, : end - begin].double()
                mixed = scores.softmax(0) @ value[begin:end, head].double()
                assert torch.allclose(found[token, head].double(), mixed, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.sampled_from(["mean", "max", "cls"]))
def test_pooling_is_sentence_by_sentence(lengths: list[int], how: str) -> None:
    states, packed = torch.randn(sum(lengths), 3), laid_out(sentences(lengths))
    expected = []
    for begin, end in pairwise(packed.starts.tolist()):
        own = states[begin:end]
        expected.append({"mean": own.mean(0), "max": own.max(0).values, "cls": own[0]}[how])
    assert torch.allclose(pooled(states, packed.sentence, packed.starts, how), torch.stack(expected), atol=1e-6)


@given(LENGTHS)
def test_runs_cover_every_token_once(lengths: list[int]) -> None:
    lengths = sorted(lengths)
    covered = []
    for run in runs_of(lengths):
        assert lengths.count(run.length) == run.sentences
        covered += torch.arange(sum(lengths))[run.start : run.start + run.sentences * run.length].tolist()
        assert run.of(torch.arange(sum(lengths))).flatten().tolist() == covered[-run.sentences * run.length :]
    assert covered == list(range(sum(lengths)))


@pytest.mark.hypothesis
@pytest.mark.parametrize("family", FAMILIES)
def test_these_families_pack(family: str) -> None:
    own = body(family)
    own.train()
    before = own.config._attn_implementation
    assert packs_exactly(own, vocabulary(), longest=64)
    assert own.training and own.config._attn_implementation == before
    assert getattr(own, "pooler", 1) is not None


def test_other_ideas_of_attention_are_refused() -> None:
    assert not packs_exactly(body("DeBERTa"), vocabulary())


def test_a_window_is_found_by_a_sentence_that_is_longer() -> None:
    """Up to half the window to each side, nothing is cut off; a longer sentence tells."""
    own = body("windowed")
    assert packs_exactly(own, vocabulary(), longest=WINDOW // 2)
    assert not packs_exactly(own, vocabulary(), longest=4 * WINDOW)


def test_another_way_is_compared_with_the_body() -> None:
    own = body("BERT")

    def right(packed: Packed) -> Tensor:
        assert packed.runs  # a way of its own is tried as it is used: in order of length
        return padded(own, [packed.ids[begin:end] for begin, end in pairwise(packed.starts.tolist())])

    assert packs_exactly(own, vocabulary(), 30, right)
    assert not packs_exactly(own, vocabulary(), 30, lambda packed: right(packed) * 1.001)


def test_the_body_is_as_before_outside_the_block() -> None:
    own, each = body("MPNet"), sentences([5, 3])
    expected = padded(own, each)
    with packing(own):
        hidden_states(own, laid_out(each))
    with pytest.raises(ZeroDivisionError), packing(own):
        raise ZeroDivisionError
    assert torch.equal(padded(own, each), expected)


def test_a_place_without_a_sentence_pools_to_nothing_and_stops_no_gradient() -> None:
    states = torch.randn(5, 3, requires_grad=True)
    sentence, starts = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([0, 2, 2, 5], dtype=torch.int32)
    weight = torch.randn(3, 3, requires_grad=True)
    found = pooled(states, sentence, starts, "max")
    assert torch.equal(found[1], torch.zeros(3)) and torch.equal(found[0], states[:2].max(0).values)
    (gradient,) = torch.autograd.grad(((found @ weight) * torch.tensor([1.0, 0.0, 1.0])[:, None]).sum(), weight)
    assert torch.isfinite(gradient).all()


@pytest.mark.gpu
@pytest.mark.parametrize("width", [6, 24, 64, 264])
def test_on_a_card_heads_of_any_width_are_attended_to(width: int) -> None:
    """In half precision, forwards and backwards, also where the kernel wants a multiple of eight or knows no head so wide."""
    packed = laid_out(sentences([5, 90, 1, 33]))
    there = Packed.of(packed.ids.cuda(), torch.tensor([5, 90, 1, 33], device="cuda"))
    drawn = torch.randn(3, 129, 2, width, generator=torch.Generator().manual_seed(1))
    exact, half = drawn.clone().requires_grad_(), drawn.cuda().bfloat16().requires_grad_()
    wanted = attend(exact[0], exact[1], exact[2], packed, width**-0.5)
    found = attend(half[0], half[1], half[2], there, width**-0.5)
    torch.testing.assert_close(found.float().cpu(), wanted, rtol=0.05, atol=0.05)
    for one in (wanted, found):
        torch.autograd.backward((one.float() * torch.sin(torch.arange(one.numel(), device=one.device)).view_as(one)).sum())
    assert exact.grad is not None and half.grad is not None
    torch.testing.assert_close(half.grad.float().cpu(), exact.grad, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("in_runs", [False, True])
def test_attention_in_half_precision_on_a_cpu_rounds_only_what_comes_in_and_goes_out(in_runs: bool) -> None:
    """Also inside autocast, which would turn it back to bf16; values and gradients."""
    torch.manual_seed(0)
    lengths = [2, 5, 5, 9]
    packed = laid_out([torch.zeros(length, dtype=torch.long) for length in lengths], in_runs)
    given_ = [torch.randn(sum(lengths), 2, 4).bfloat16() for _ in range(4)]
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        inputs = [one.to(dtype).requires_grad_() for one in given_[:3]]
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            mixed = attend(inputs[0], inputs[1], inputs[2], packed, 0.5)
        assert mixed.dtype == dtype
        results.append([mixed, *torch.autograd.grad(mixed, inputs, given_[3].to(dtype))])
    for half, single in zip(*results, strict=True):
        assert torch.equal(half, single.bfloat16())


def test_whether_a_body_packs_does_not_depend_on_autocast() -> None:
    own = body("BERT")
    with torch.autocast("cpu", torch.bfloat16):
        assert packs_exactly(own, vocabulary())

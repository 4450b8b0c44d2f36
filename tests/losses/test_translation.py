"""Teacher-forced cross-entropy against loops over every word; padding costs nothing, and parts change nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.losses.translation import translation

WORDS, WIDTH, PADDING = 6, 4, 0


def by_definition(states: Tensor, target: Tensor, weight: Tensor, bias: Tensor, smoothing: float) -> Tensor:
    total, count = torch.zeros((), dtype=torch.float64), 0
    for state, word in zip(states.reshape(-1, WIDTH), target.flatten().tolist(), strict=True):
        if word == PADDING:
            continue
        scores = [(weight[v] * state).sum() + bias[v] for v in range(WORDS)]
        shared = torch.stack([score.exp() for score in scores]).sum().log()
        total = total - (1 - smoothing) * (scores[word] - shared)
        for score in scores:
            total = total - smoothing / WORDS * (score - shared)
        count += 1
    return total / max(count, 1)


@given(
    st.lists(st.lists(st.integers(0, WORDS - 1), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(1, 14),
    st.integers(0, 1000),
)
@settings(deadline=None, max_examples=60)
def test_value_and_gradient_equal_the_formula(words: list[list[int]], smoothing: float, at_once: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    shapes = ((len(words), 3, WIDTH), (WORDS, WIDTH), (WORDS,))
    states, weight, bias = (torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes)
    target = torch.tensor(words)
    value = translation(
        states, target, lambda some: torch.nn.functional.linear(some, weight, bias), PADDING, smoothing, at_once
    )
    wanted = by_definition(states, target, weight, bias, smoothing) + 0 * sum(one.sum() for one in (states, weight, bias))
    assert value.shape == () and torch.allclose(value, wanted, rtol=1e-10, atol=1e-12)
    leaves = [states, weight, bias]
    for slope, right in zip(torch.autograd.grad(value, leaves), torch.autograd.grad(wanted, leaves), strict=True):
        assert torch.allclose(slope, right, rtol=1e-9, atol=1e-12)


def test_it_knows_nothing_at_first_and_everything_at_last() -> None:
    target = torch.tensor([[1, 5, 0]])
    assert translation(torch.zeros(1, 3, WORDS), target, lambda some: some, PADDING).item() == pytest.approx(math.log(WORDS))
    sure = 50 * torch.nn.functional.one_hot(target, WORDS).float()
    assert translation(sure, target, lambda some: some, PADDING).item() == pytest.approx(0, abs=1e-6)
    assert translation(sure, torch.zeros_like(target), lambda some: some, PADDING).item() == 0, "padding alone"


@pytest.mark.parametrize(("positions", "scored"), [(8192, [8192]), (8193, [8192, 1, 1, 8192])])
def test_scores_of_8192_positions_exist_at_a_time_and_only_parts_are_computed_again(positions: int, scored: list[int]) -> None:
    sizes = []

    def project(some: Tensor) -> Tensor:
        sizes.append(len(some))
        return some

    states = torch.zeros(positions, 2, requires_grad=True)
    torch.autograd.backward(translation(states, torch.ones(positions, dtype=torch.long), project, PADDING))
    assert sizes == scored


def test_half_precision_is_summed_in_single() -> None:
    states = torch.randn(200, WORDS, generator=torch.Generator().manual_seed(1)).bfloat16()
    target = torch.arange(200) % 5 + 1
    value = translation(states, target, lambda some: some, PADDING, at_once=64)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(translation(states.double(), target, lambda some: some, PADDING).item(), rel=1e-5)

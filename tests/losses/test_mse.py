"""The loss is the paper's formula, pair by pair, value and gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.losses.combined import LossBatch, needed
from isogloss.losses.mse import mse
from losses.drawn import LOSSES, batches, check, cosine, listed, sum_of


def by_definition(student: torch.Tensor, teacher: torch.Tensor, pairs: list[tuple[int, int]]) -> torch.Tensor:
    """1/|B| Σ_j (M(s_j) − M̂(s_j))² + (M(s_j) − M̂(t_j))², written as loops over pairs and dimensions."""
    total = torch.zeros(())
    for source, target in pairs:
        for dimension in range(teacher.shape[1]):
            total = total + (teacher[source, dimension] - student[source, dimension]) ** 2
            total = total + (teacher[source, dimension] - student[target, dimension]) ** 2
    return total / len(pairs)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12), st.integers(0, 1000))
@settings(deadline=None)
def test_value_and_gradient_equal_the_formula(pairs: list[tuple[int, int]], seed: int) -> None:
    torch.manual_seed(seed)
    student, teacher = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3)
    sources, targets = torch.tensor([s for s, _ in pairs]), torch.tensor([t for _, t in pairs])
    value = mse(student[sources], student[targets], teacher[sources])
    wanted = by_definition(student, teacher, pairs)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert torch.allclose(torch.autograd.grad(value, student)[0], torch.autograd.grad(wanted, student)[0], atol=1e-5)


def weighted(views: LossBatch) -> Tensor:
    pairs = listed(views.weight)
    both = [(side[j], needed(views.teacher)[j]) for j in pairs for side in (views.source, views.target)]
    return sum_of((a - b) ** 2 for student, teacher in both for a, b in zip(student, teacher, strict=True)) / len(pairs)


def normalized(views: LossBatch) -> Tensor:
    """Unit vectors are 2 − 2 cos apart, squared."""
    pairs = listed(views.weight)
    both = [(side[j], needed(views.teacher)[j]) for j in pairs for side in (views.source, views.target)]
    return sum_of(2 - 2 * cosine(student, teacher) for student, teacher in both) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=30)
def test_weights_count_pairs(views: LossBatch) -> None:
    check(LOSSES["mse"], weighted, views)


@given(batches())
@settings(deadline=None, max_examples=30)
def test_normalised_compares_directions(views: LossBatch) -> None:
    check(LOSSES["mse normalized"], normalized, views)

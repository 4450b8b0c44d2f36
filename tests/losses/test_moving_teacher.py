"""The loss sees translations only; the teacher follows by the paper's formula, in digits that can hold the step."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.losses.combined import LossBatch, needed
from isogloss.losses.moving_teacher import follow_, moving_teacher, tau_at
from losses.drawn import LOSSES, batches, check, listed, sum_of


def by_definition(views: LossBatch) -> Tensor:
    pairs = listed(views.weight)
    rows = [(views.target[j], needed(views.teacher)[j]) for j in pairs]
    return sum_of((a - b) ** 2 for student, teacher in rows for a, b in zip(student, teacher, strict=True)) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=30)
def test_value_and_gradient_equal_the_formula(views: LossBatch) -> None:
    check(LOSSES["moving_teacher"], by_definition, views)


def test_no_gradient_goes_into_the_teacher() -> None:
    target, teacher = torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    moving_teacher(target, teacher).backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None and target.grad is not None and target.grad.abs().sum() > 0


def test_tau_starts_at_its_base_and_ends_at_one() -> None:
    assert tau_at(0, 105_000) == pytest.approx(0.99999, abs=1e-15)
    assert tau_at(105_000, 105_000) == 1
    assert 1 - tau_at(50, 100, base=0.9) == pytest.approx(0.05)
    assert 1 - tau_at(25, 100, base=0.9) == pytest.approx(0.1 * (math.sqrt(0.5) + 1) / 2)
    taus = [tau_at(step, 40) for step in range(41)]
    assert taus == sorted(taus)


@given(st.integers(0, 1000), st.floats(0, 1), st.booleans())
@settings(deadline=None, max_examples=30)
def test_teacher_follows_by_the_formula(seed: int, tau: float, captured: bool) -> None:
    torch.manual_seed(seed)
    shapes = [(3, 2), (4,), ()]
    teacher, student = [torch.randn(shape) for shape in shapes], [torch.randn(shape, requires_grad=True) for shape in shapes]
    wanted = [tau * xi.double() + (1 - tau) * theta.detach().double() for xi, theta in zip(teacher, student, strict=True)]
    before, places = [theta.detach().clone() for theta in student], [xi.data_ptr() for xi in teacher]
    follow_(teacher, student, torch.tensor(tau, dtype=torch.float64) if captured else tau)
    for xi, right in zip(teacher, wanted, strict=True):
        assert torch.allclose(xi.double(), right, atol=1e-6)
    assert [xi.data_ptr() for xi in teacher] == places, "the teacher must be moved in place"
    assert all(torch.equal(theta, was) for theta, was in zip(student, before, strict=True))


def test_parameters_with_gradients_can_follow() -> None:
    teacher, student = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    follow_(list(teacher.parameters()), list(student.parameters()), 0.0)
    assert torch.equal(teacher.weight, student.weight) and teacher.weight.requires_grad


@pytest.mark.parametrize("captured", [False, True])
def test_small_steps_arrive(captured: bool) -> None:
    """A thousand steps of 1e-5 towards a student at 1.01: what is lost in bf16 is kept, in float64 to the last digit."""
    rough, exact, student = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.tensor([1.01])
    tau = torch.tensor(0.99999, dtype=torch.float64) if captured else 0.99999
    for _ in range(1000):
        follow_([rough], [student], tau)
        follow_([exact], [student], tau)
    wanted = 1 + (student.double().item() - 1) * (1 - 0.99999**1000)
    assert exact.item() == pytest.approx(wanted, abs=1e-12)
    assert rough.item() > 1 and rough.item() == pytest.approx(wanted, abs=5e-5)


def test_half_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        follow_([torch.ones(1, dtype=torch.bfloat16)], [torch.zeros(1, dtype=torch.bfloat16)], 0.5)


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        follow_([torch.ones(1)], [], 0.5)

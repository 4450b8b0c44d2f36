"""Similarities to a bank against loops; agreement costs nothing; the bank's directions count as the teacher uses them."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from isogloss.config import LossSettings
from isogloss.losses.bank_similarity import bank_similarity
from isogloss.losses.combined import CombinedLoss, LossBatch, needed
from losses.drawn import LOSSES, a_batch, batches, check, cosine, listed, sum_of


def shares(vector: Tensor, bank: Tensor) -> list[Tensor]:
    """Of one vector, at the temperature of `drawn.LOSSES`."""
    scores = [(cosine(vector, row) / 0.2).exp() for row in bank]
    return [score / sum_of(scores) for score in scores]


def by_definition(views: LossBatch) -> Tensor:
    pairs, bank = listed(views.weight), needed(views.bank)
    total = []
    for i in pairs:
        p = shares(needed(views.teacher)[i], bank)
        for vectors in (views.source, views.target):
            total.append(sum_of(a * (a / b).log() for a, b in zip(p, shares(vectors[i], bank), strict=True)) / 2)
    return sum_of(total) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=30)
def test_value_and_gradient_equal_the_formula(views: LossBatch) -> None:
    check(LOSSES["bank_similarity"], by_definition, views)


def test_a_student_that_agrees_has_no_loss_and_one_that_does_not_has() -> None:
    random = torch.Generator().manual_seed(1)
    teacher, bank = (torch.randn(rows, 4, dtype=torch.float64, generator=random) for rows in (6, 9))
    agreeing = (3 * teacher).requires_grad_()  # lengths do not count
    loss = bank_similarity(agreeing, agreeing, teacher, 2 * bank)
    assert abs(loss.item()) < 1e-12 and torch.autograd.grad(loss, agreeing)[0].abs().max() < 1e-12
    assert bank_similarity(agreeing, agreeing.roll(1, 0), teacher, bank).item() > 0.1


def test_directions_that_the_bank_does_not_have_do_not_count() -> None:
    """With a bank in a plane, whatever a student adds at right angles to it changes only the temperature of all alike."""
    bank = torch.eye(3, dtype=torch.float64)[:2]
    teacher = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    beside = torch.tensor([[1.0, 1.0, 5.0]], dtype=torch.float64)
    assert bank_similarity(beside, beside, teacher, bank).item() == pytest.approx(0.0, abs=1e-12)
    tilted = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    assert bank_similarity(tilted, tilted, teacher, bank).item() > 0.1


def test_the_temperature_is_a_recipes_unless_given() -> None:
    views = a_batch()
    arguments = (views.source, views.target, needed(views.teacher), needed(views.bank), views.weight)
    assert torch.equal(bank_similarity(*arguments), bank_similarity(*arguments, LossSettings().bank_temperature))


def test_no_gradient_goes_into_the_teacher_or_the_bank() -> None:
    student, teacher, bank = (torch.randn(3, 4, requires_grad=True) for _ in range(3))
    bank_similarity(student, student.roll(1, 0), teacher, bank).backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None and bank.grad is None and student.grad is not None


def test_without_a_bank_it_is_refused() -> None:
    views = a_batch()
    views = LossBatch(views.source, views.target, views.teacher, views.group, views.weight)
    with pytest.raises(ValueError, match="bank"):
        CombinedLoss(LossSettings(mse=0.0, bank_similarity=1.0))(views)

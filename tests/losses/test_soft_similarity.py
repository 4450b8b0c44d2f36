"""Similarity distributions against loops; agreement costs nothing; several translations are several right answers."""

import torch
from hypothesis import given, settings
from torch import Tensor

from isogloss.config import LossSettings
from isogloss.losses.combined import LossBatch, needed
from isogloss.losses.soft_similarity import soft_similarity
from losses.drawn import LOSSES, a_batch, batches, check, cosine, listed, sum_of


def softmax(rows: Tensor, columns: Tensor, row: int, pairs: list[int], temperature: float) -> list[Tensor]:
    scores = [(cosine(rows[row], columns[j]) / temperature).exp() for j in pairs]
    return [score / sum_of(scores) for score in scores]


def by_definition(views: LossBatch) -> Tensor:
    """The temperatures are those of `drawn.LOSSES`: 0.2, and 0.1 for the teacher."""
    pairs, teacher = listed(views.weight), needed(views.teacher)
    total = []
    for i in pairs:
        p = softmax(teacher, teacher, i, pairs, 0.1)
        for rows, columns in ((views.target, views.source), (views.source, views.target)):
            q = softmax(rows, columns, i, pairs, 0.2)
            total.append(sum_of(a * (a / b).log() for a, b in zip(p, q, strict=True)) / 2)
    return sum_of(total) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=30)
def test_value_and_gradient_equal_the_formula(views: LossBatch) -> None:
    check(LOSSES["soft_similarity"], by_definition, views)


def test_a_student_that_agrees_has_no_loss() -> None:
    """Also one that is turned, scaled and of another dimension: only the cosines count."""
    teacher = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    turned = torch.cat([3 * teacher, torch.zeros(6, 2, dtype=torch.float64)], 1).flip(1).requires_grad_()
    loss = soft_similarity(turned, turned, teacher)
    assert abs(loss.item()) < 1e-12 and torch.autograd.grad(loss, turned)[0].abs().max() < 1e-12
    assert soft_similarity(turned, turned.roll(1, 0), teacher).item() > 0.1


def test_all_translations_of_a_source_are_wanted_alike() -> None:
    """A source with two translations is best served by a student that has both at its place, not one of them."""
    places = torch.eye(3)
    teacher = places[[0, 0, 1, 2]]
    both = soft_similarity(teacher, teacher, teacher)
    one = soft_similarity(teacher, places[[0, 1, 1, 2]], teacher)
    assert abs(both.item()) < 1e-6 < one.item()


def test_temperature_of_the_teacher_is_its_own() -> None:
    views = a_batch()
    given_once = soft_similarity(views.source, views.target, needed(views.teacher), views.weight, 0.3)
    given_twice = soft_similarity(views.source, views.target, needed(views.teacher), views.weight, 0.3, 0.3)
    other = soft_similarity(views.source, views.target, needed(views.teacher), views.weight, 0.3, 0.1)
    assert given_once == given_twice != other


def test_the_temperature_is_a_recipes_unless_given() -> None:
    views = a_batch()
    arguments = (views.source, views.target, needed(views.teacher), views.weight)
    usual = LossSettings().soft_temperature
    assert torch.equal(soft_similarity(*arguments), soft_similarity(*arguments, usual))


def test_no_gradient_goes_into_the_teacher() -> None:
    student, teacher = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    soft_similarity(student, student.roll(1, 0), teacher).backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None and student.grad is not None

"""Moments over sentences of pairs without a common text, against loops; nothing to pay for a space that is used in full."""

import torch
from hypothesis import given, settings
from torch import Tensor

from isogloss.losses.combined import LossBatch
from isogloss.losses.spread import spread
from losses.drawn import LOSSES, D, batches, check, cosine, listed, sum_of


def by_definition(views: LossBatch) -> Tensor:
    pairs = listed(views.weight)
    texts = [{views.group[j].item(), *(() if views.target_group is None else (views.target_group[j].item(),))} for j in pairs]
    points = [(texts[at], side[j]) for at, j in enumerate(pairs) for side in (views.source, views.target)]
    between = [cosine(x, y) for a, x in points for b, y in points if not a & b]
    if not between:
        return torch.zeros((), dtype=torch.float64)
    first, second = sum_of(between) / len(between), sum_of(c * c for c in between) / len(between)
    return first**2 + max(second - 1 / D, torch.zeros(()))


@given(batches())
@settings(deadline=None, max_examples=40)
def test_value_and_gradient_equal_the_formula(views: LossBatch) -> None:
    check(LOSSES["spread"], by_definition, views)


def test_right_angles_cost_nothing_and_a_cone_costs_all() -> None:
    at = torch.arange(4)
    crossed, cone = torch.eye(4), torch.ones(4, 4)
    assert spread(crossed, crossed, at).item() == 0
    assert abs(spread(cone, cone, at).item() - (1 + 1 - 1 / 4)) < 1e-6


def test_the_same_sentence_may_be_in_one_place() -> None:
    together = torch.ones(3, 4)
    assert spread(together, together, torch.tensor([7, 7, 7])).item() == 0


def test_what_shares_a_translation_may_be_near() -> None:
    together, at = torch.ones(2, 4), torch.tensor([1, 2])
    assert spread(together, together, at, target_group=torch.tensor([5, 5])).item() == 0
    assert spread(together, together, at, target_group=torch.tensor([2, 6])).item() == 0, (
        "one's translation is the other's source"
    )
    assert spread(together, together, at, target_group=torch.tensor([5, 6])).item() > 1


def test_a_step_down_opens_the_cone() -> None:
    torch.manual_seed(0)
    vectors = (torch.randn(8, 6) + 2).requires_grad_()
    before = spread(vectors, vectors, torch.arange(8))
    moved = vectors - 5 * torch.autograd.grad(before, vectors)[0]
    assert spread(moved, moved, torch.arange(8)) < before

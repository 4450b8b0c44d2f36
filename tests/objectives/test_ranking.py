"""Softmax both ways against loops; what says the same is never a negative; the margin is in cosine."""

import math

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from isogloss.objectives.combined import Views
from isogloss.objectives.ranking import ranking
from objectives.drawn import OBJECTIVES, a_batch, batches, check, cosine, gradients, listed, sum_of, tracked

T, M = 0.2, 0.3  # as in drawn.OBJECTIVES


def by_definition(views: Views) -> Tensor:
    pairs, group = listed(views.weight), views.group
    assert views.negatives is not None and views.negative_group is not None
    total = []
    for i in pairs:
        right = ((cosine(views.source[i], views.target[i]) - M) / T).exp()
        targets = [(cosine(views.source[i], views.target[j]) / T).exp() for j in pairs if group[j] != group[i]]
        sources = [(cosine(views.target[i], views.source[j]) / T).exp() for j in pairs if group[j] != group[i]]
        for k in listed(views.negative_weight):
            if views.negative_group[k] != group[i]:
                targets.append((cosine(views.source[i], views.negatives[k]) / T).exp())
        total += [-(right / (right + sum_of(targets))).log(), -(right / (right + sum_of(sources))).log()]
    return sum_of(total) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=40)
def test_value_and_gradient_equal_the_formula(views: Views) -> None:
    check(OBJECTIVES["ranking"], by_definition, views)


def test_defaults_are_plain_cross_entropy_both_ways() -> None:
    torch.manual_seed(3)
    source, target = torch.randn(5, 4), torch.randn(5, 4)
    logits = torch.nn.functional.cosine_similarity(source[:, None], target, dim=-1) / 0.05
    at = torch.arange(5)
    wanted = torch.nn.functional.cross_entropy(logits, at) + torch.nn.functional.cross_entropy(logits.T, at)
    assert ranking(source, target, at).item() == pytest.approx(wanted.item(), rel=1e-5)


def test_translations_of_the_same_source_are_never_negatives() -> None:
    """Each pair's own terms do not depend on the other translation of its source; without the group they would."""
    torch.manual_seed(0)
    source = torch.randn(3, 4)[[0, 0, 1]].requires_grad_()
    target = torch.randn(3, 4, requires_grad=True)
    first = torch.tensor([1.0, 1.0, 0.0])
    assert ranking(source, target, torch.tensor([5, 5, 6]), first).item() == 0
    slopes = gradients(ranking(source, target, torch.tensor([5, 5, 6]), first), [source, target])
    assert all(not slope.any() for slope in slopes)
    assert ranking(source, target, torch.tensor([4, 5, 6]), first).item() > 0


def test_hard_negatives_are_for_sources_only_and_never_of_their_own() -> None:
    source, target = torch.eye(2), torch.eye(2)
    negatives, group = source[:1].clone(), torch.tensor([0, 1])
    easy = ranking(source, target, group).item()
    hard = ranking(source, target, group, negatives=negatives, negative_group=torch.tensor([-1])).item()
    own = ranking(source, target, group, negatives=negatives, negative_group=torch.tensor([0])).item()
    assert hard == pytest.approx(easy + math.log(2) / 2, abs=1e-6), "one of two sources now has an equal, no target has"
    assert own == pytest.approx(easy, abs=1e-6)


def test_hard_negatives_get_a_gradient_and_their_padding_none() -> None:
    views, leaves = tracked(a_batch())
    slope = gradients(OBJECTIVES["ranking"](views), leaves)[2]
    assert views.negative_weight is not None
    assert ((slope.abs().sum(1) > 0) == (views.negative_weight > 0)).all()


def test_margin_is_taken_from_the_right_cosine() -> None:
    """Two pairs at right angles, T = 1: −log(e^(1−m) / (e^(1−m) + 1)), both ways."""
    places, group = torch.eye(2, dtype=torch.float64), torch.tensor([0, 1])
    value = ranking(places, places, group, temperature=1.0, margin=0.3).item()
    assert value == pytest.approx(2 * math.log(1 + math.exp(-0.7)), rel=1e-12)


def test_negatives_need_their_groups() -> None:
    with pytest.raises(ValueError, match="belong together"):
        ranking(torch.eye(2), torch.eye(2), torch.tensor([0, 1]), negatives=torch.eye(2))

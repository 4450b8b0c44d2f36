"""The loss is the paper's formula: softmax over W · (u, v, |u − v|), value and gradient."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.losses.nli import Classifier, nli


def by_definition(u: Tensor, v: Tensor, labels: list[int], weight: Tensor) -> Tensor:
    """− 1/|B| Σ_j log ( exp(W_y · x_j) / Σ_c exp(W_c · x_j) ), as loops over pairs, classes and features."""
    total = torch.zeros((), dtype=torch.float64)
    for left, right, label in zip(u, v, labels, strict=True):
        features = [*left, *right, *(abs(a - b) for a, b in zip(left, right, strict=True))]
        scores = []
        for row in weight:
            score = torch.zeros((), dtype=torch.float64)
            for factor, feature in zip(row, features, strict=True):
                score = score + factor * feature
            scores.append(score)
        whole = torch.zeros((), dtype=torch.float64)
        for score in scores:
            whole = whole + score.exp()
        total = total - (scores[label].exp() / whole).log()
    return total / len(labels)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_value_and_gradients_equal_the_formula(labels: list[int], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(len(labels), 3, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(2))
    classifier = Classifier(3, seed).double()
    value, wanted = nli(u, v, torch.tensor(labels), classifier), by_definition(u, v, labels, classifier.weight)
    assert torch.allclose(value, wanted, rtol=1e-9)
    leaves = (u, v, classifier.weight)
    for slope, right in zip(torch.autograd.grad(value, leaves), torch.autograd.grad(wanted, leaves), strict=True):
        assert torch.allclose(slope, right, rtol=1e-8, atol=1e-10)


def test_vectors_in_half_precision_are_judged_in_single() -> None:
    classifier = Classifier(4, 1)
    u, v = torch.randn(5, 4), torch.randn(5, 4)
    labels = torch.tensor([0, 1, 2, 1, 0])
    with torch.autocast("cpu", torch.bfloat16):
        half = nli(u.bfloat16(), v.bfloat16(), labels, classifier)
    assert half.dtype == torch.float32
    assert torch.allclose(half, nli(u.bfloat16().float(), v.bfloat16().float(), labels, classifier))


def test_a_classifier_is_drawn_by_its_seed_alone() -> None:
    before = torch.get_rng_state()
    first = Classifier(6, 3).weight
    torch.randn(7)
    assert torch.equal(first, Classifier(6, 3).weight) and not torch.equal(first, Classifier(6, 4).weight)
    assert first.shape == (3, 18) and first.abs().max() <= 1 / math.sqrt(18)
    torch.set_rng_state(before)


def test_weights_start_where_those_of_a_linear_layer_do() -> None:
    largest = float(Classifier(8, seed=0).weight.detach().abs().max())
    assert 0.95 * 24**-0.5 < largest <= 24**-0.5


def test_autocast_around_it_changes_nothing() -> None:
    u, v = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    labels, classifier = torch.tensor([0, 1, 2, 1, 0]), Classifier(8, seed=0)
    plain = nli(u, v, labels, classifier)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(nli(u, v, labels, classifier), plain)

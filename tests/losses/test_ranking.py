"""Softmax both ways against loops; what says the same is never a negative; the margin is in cosine."""

import math

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from isogloss.losses.combined import LossBatch
from isogloss.losses.ranking import ranking
from losses.drawn import LOSSES, a_batch, batches, check, cosine, gradients, listed, sum_of, tracked

T, M = 0.2, 0.3  # as in drawn.OBJECTIVES


def by_definition(views: LossBatch) -> Tensor:
    assert views.negatives is not None and views.negative_group is not None
    assert views.target_group is not None and views.negative_target_group is not None
    pairs, hard = listed(views.weight), listed(views.negative_weight)
    group, text = views.group.tolist(), views.target_group.tolist()
    hard_group, hard_text = views.negative_group.tolist(), views.negative_target_group.tolist()
    told = {(group[j], text[j]) for j in pairs} | {(hard_group[k], hard_text[k]) for k in hard}

    def wrong(source: int, answer: int) -> bool:
        return source != answer and (source, answer) not in told

    total = []
    for i in pairs:
        right = ((cosine(views.source[i], views.target[i]) - M) / T).exp()
        targets = [(cosine(views.source[i], views.target[j]) / T).exp() for j in pairs if wrong(group[i], text[j])]
        sources = [(cosine(views.target[i], views.source[j]) / T).exp() for j in pairs if wrong(group[j], text[i])]
        for k in hard:
            if wrong(group[i], hard_text[k]):
                targets.append((cosine(views.source[i], views.negatives[k]) / T).exp())
        total += [-(right / (right + sum_of(targets))).log(), -(right / (right + sum_of(sources))).log()]
    return sum_of(total) / len(pairs)


@given(batches())
@settings(deadline=None, max_examples=100)
def test_value_and_gradient_equal_the_formula(views: LossBatch) -> None:
    check(LOSSES["ranking"], by_definition, views)


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


def test_sources_of_the_same_translation_are_never_negatives() -> None:
    """What is left of the loss of two sources with one translation is nothing; of two translations it is something."""
    torch.manual_seed(0)
    source, group = torch.randn(3, 4, requires_grad=True), torch.tensor([4, 5, 6])
    target = torch.randn(3, 4)[[0, 0, 1]].requires_grad_()
    first = torch.tensor([1.0, 1.0, 0.0])
    shared = ranking(source, target, group, first, target_group=torch.tensor([7, 7, 8]))
    assert shared.item() == 0 and all(not slope.any() for slope in gradients(shared, [source, target]))
    assert ranking(source, target, group, first, target_group=torch.tensor([7, 8, 9])).item() > 0
    assert ranking(source, target, group, first).item() > 0, "texts that have no numbers count as different"


def surprise(*negatives: int) -> float:
    """Of finding the right answer among so many wrong ones at right angles, T = 1; all of them added up."""
    return sum(math.log(1 + count * math.exp(-1)) for count in negatives)


def added_up(groups: list[int], texts: list[int], hard: list[tuple[int, int]]) -> float:
    """The loss of all pairs; every vector is at right angles to all but its own pair's other side."""
    pairs, every = len(groups), torch.eye(len(groups) + len(hard), dtype=torch.float64)
    negative_group, negative_text = (
        torch.tensor(side, dtype=torch.int64) for side in (list(zip(*hard, strict=True)) or [(), ()])
    )
    value = ranking(
        every[:pairs],
        every[:pairs],
        torch.tensor(groups),
        temperature=1.0,
        negatives=every[pairs:],
        negative_group=negative_group,
        target_group=torch.tensor(texts),
        negative_target_group=negative_text,
    )
    return pairs * value.item()


def test_what_another_pair_of_the_batch_calls_a_translation_is_one() -> None:
    """(B, u), (B, t) and (A, t): u is wrong for A, which nobody says to mean u, and t right for B, also beside u."""
    a, b, t, u = range(4)
    assert added_up([b, b, a], [u, t, t], []) == pytest.approx(surprise(1, 1)), "A against u, and u against A"
    assert added_up([b, a], [u, t], []) == pytest.approx(surprise(1, 1, 1, 1)), "nobody here says that t means B"
    assert added_up([b, a], [u, t], [(b, t)]) == pytest.approx(surprise(1, 1)), "a negative that was mined says it too"


def test_a_sentence_is_no_wrong_rendering_of_itself() -> None:
    a, b, t = range(3)
    assert added_up([a, b], [t, a], []) == pytest.approx(surprise(1, 1)), "B against t, and t against B"


def test_a_hard_negative_that_is_the_very_translation_is_none() -> None:
    """Mined for another source, whose wrong answer it is, as the translation of a third."""
    a, b, c, t, u = range(5)
    assert added_up([a, b], [t, u], [(c, t)]) == pytest.approx(surprise(1, 2, 1, 1)), "wrong for B alone"
    assert added_up([a, b], [t, u], [(c, a)]) == pytest.approx(surprise(1, 2, 1, 1)), "and so is A's own text"
    assert added_up([a, b], [t, u], [(c, c)]) == pytest.approx(surprise(2, 2, 1, 1))


def test_padding_says_nothing_about_what_is_right() -> None:
    source, group, text = torch.eye(3), torch.tensor([0, 1, 0]), torch.tensor([3, 4, 4])
    padded = ranking(source, source, group, torch.tensor([1.0, 1.0, 0.0]), 1.0, target_group=text)
    assert 2 * padded.item() == pytest.approx(surprise(1, 1, 1, 1))


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
    slope = gradients(LOSSES["ranking"](views), leaves)[2]
    assert views.negative_weight is not None
    assert ((slope.abs().sum(1) > 0) == (views.negative_weight > 0)).all()


def test_margin_is_taken_from_the_right_cosine() -> None:
    """Two pairs at right angles, T = 1: −log(e^(1−m) / (e^(1−m) + 1)), both ways."""
    places, group = torch.eye(2, dtype=torch.float64), torch.tensor([0, 1])
    value = ranking(places, places, group, temperature=1.0, margin=0.3).item()
    assert value == pytest.approx(2 * math.log(1 + math.exp(-0.7)), rel=1e-12)


def test_negatives_need_their_groups() -> None:
    places, hard = torch.eye(2), torch.tensor([3])
    with pytest.raises(ValueError, match="one number, on either side"):
        ranking(places, places, torch.tensor([0, 1]), negatives=places[:1], negative_group=hard, negative_target_group=hard)
    with pytest.raises(ValueError, match="belong together"):
        ranking(torch.eye(2), torch.eye(2), torch.tensor([0, 1]), negatives=torch.eye(2))

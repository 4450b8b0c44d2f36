"""Batches drawn by hypothesis, and each loss as a function of one: what the tests of this folder share.

Every drawn batch has pairs that share a source or a translation, weights of 0, 1 and 2, and hard negatives. The oracles are
loops over the pairs as `listed` gives them: without padding, and with a pair of weight 2 twice.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable

import torch
from hypothesis import strategies as st
from torch import Tensor

from isogloss.losses.bank_similarity import bank_similarity
from isogloss.losses.combined import LossBatch, needed
from isogloss.losses.moving_teacher import moving_teacher
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from isogloss.losses.soft_similarity import soft_similarity
from isogloss.losses.spread import spread

D = 5

LOSSES: dict[str, Callable[[LossBatch], Tensor]] = {
    "mse": lambda v: mse(v.source, v.target, needed(v.teacher), v.weight),
    "mse normalized": lambda v: mse(v.source, v.target, needed(v.teacher), v.weight, normalized=True),
    "moving_teacher": lambda v: moving_teacher(v.target, needed(v.teacher), v.weight),
    "soft_similarity": lambda v: soft_similarity(v.source, v.target, needed(v.teacher), v.weight, 0.2, 0.1),
    "bank_similarity": lambda v: bank_similarity(v.source, v.target, needed(v.teacher), needed(v.bank), v.weight, 0.2),
    "ranking": lambda v: ranking(
        v.source,
        v.target,
        v.group,
        v.weight,
        0.2,
        0.3,
        v.negatives,
        v.negative_group,
        v.negative_weight,
        v.target_group,
        v.negative_target_group,
    ),
    "spread": lambda v: spread(v.source, v.target, v.group, v.weight, v.target_group),
}


def drawn(
    seed: int,
    groups: list[int],
    weights: list[int],
    hard: list[tuple[int, int]],
    padding: float = math.nan,
    texts: list[int] | None = None,
) -> LossBatch:
    """A batch in double precision; pairs of a group share their source and its teacher vector. Padding is NaN.

    `texts` numbers the translations, then the hard negatives: equal numbers are the same text and have the same vector, and
    those below 4 are the sources themselves. By default all differ.
    """
    random = torch.Generator().manual_seed(seed)

    def vectors(rows: int) -> Tensor:
        return torch.randn(rows, D, generator=random, dtype=torch.float64)

    group, weight = torch.tensor(groups), torch.tensor(weights, dtype=torch.float64)
    hard_weight = torch.tensor([count for _, count in hard], dtype=torch.float64)
    text = torch.arange(4, 4 + len(groups) + len(hard)) if texts is None else torch.tensor(texts)
    target_group, hard_text = text[: len(groups)], text[len(groups) :]
    spoken, teacher = vectors(4 + len(text)), vectors(4)[group]
    source, target, negatives = spoken[group], spoken[target_group], spoken[hard_text]
    for rows in (source, teacher, target):
        rows[weight == 0] = padding
    negatives[hard_weight == 0] = padding
    hard_group = torch.tensor([place for place, _ in hard], dtype=torch.int64)
    hard_rows = negatives, hard_group, hard_weight
    return LossBatch(
        source,
        target,
        teacher,
        group,
        weight,
        *hard_rows,
        bank=vectors(7),
        target_group=target_group,
        negative_target_group=hard_text,
    )


COUNTS = st.sampled_from([1, 0, 2])


@st.composite
def batches(draw: st.DrawFn) -> LossBatch:
    """Up to six pairs of up to four sources, at least one of them no padding, and up to three hard negatives.

    Their texts are few, so that several pairs and negatives have the same one, and some are sources themselves.
    """
    pairs = draw(st.lists(st.tuples(st.integers(0, 3), COUNTS), min_size=1, max_size=6).filter(lambda p: any(c for _, c in p)))
    hard = draw(st.lists(st.tuples(st.integers(-1, 3), COUNTS), max_size=3))
    each = len(pairs) + len(hard)
    texts = draw(st.lists(st.integers(2, min(7, 3 + each)), min_size=each, max_size=each))
    groups, counts = [group for group, _ in pairs], [count for _, count in pairs]
    return drawn(draw(st.integers(0, 10_000)), groups, counts, hard, texts=texts)


def a_batch(padding: float = math.nan) -> LossBatch:
    """One batch with all that can happen.

    Two translations of a source, two sources of a translation, a pair twice, padding, negatives that are none.
    """
    texts = [4, 5, 5, 6, 7, 5, 8, 9, 4, 10]
    return drawn(7, [0, 1, 0, 2, 3, 1], [1, 1, 1, 0, 2, 0], [(0, 1), (3, 0), (-1, 2), (2, 1)], padding, texts)


def listed(weight: Tensor | None) -> list[int]:
    """The numbers of the rows, each as often as it counts."""
    assert weight is not None
    return [row for row, count in enumerate(weight.tolist()) for _ in range(int(count))]


def tracked(views: LossBatch) -> tuple[LossBatch, list[Tensor]]:
    """The same batch with gradients asked for, and the tensors they will be of: source, target, negatives."""
    leaves = [
        vectors.clone().requires_grad_() for vectors in (views.source, views.target, views.negatives) if vectors is not None
    ]
    source, target, negatives = leaves
    return dataclasses.replace(views, source=source, target=target, negatives=negatives), leaves


def gradients(value: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Of a value to the leaves; zeros where it does not depend on one."""
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if slope is None else slope for slope, leaf in zip(found, leaves, strict=True)]


def check(objective: Callable[[LossBatch], Tensor], oracle: Callable[[LossBatch], Tensor], views: LossBatch) -> None:
    """Value and gradient of one are those of the other."""
    views, leaves = tracked(views)
    value, wanted = objective(views), oracle(views)
    assert value.shape == () and torch.allclose(value, wanted, rtol=1e-9, atol=1e-11), f"{value} is not {wanted}"
    if not wanted.requires_grad:
        wanted = wanted + 0 * leaves[0].nan_to_num().sum()
    for slope, right in zip(gradients(value, leaves), gradients(wanted, leaves), strict=True):
        assert torch.allclose(slope, right, rtol=1e-8, atol=1e-10)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """By definition."""
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """Added up one by one, in double precision."""
    total = torch.zeros((), dtype=torch.float64)
    for term in terms:
        total = total + term
    return total

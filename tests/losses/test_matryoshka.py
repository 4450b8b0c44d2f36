"""Prefixes of every vector, averaged as the formula says; at full length the loss itself."""

import pytest
import torch
from torch import Tensor

from isogloss.losses.combined import needed
from isogloss.losses.matryoshka import matryoshka
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from losses.drawn import D, a_batch


def test_the_full_length_alone_is_the_loss_itself() -> None:
    views = a_batch()
    arguments = (views.source, views.target, needed(views.teacher), views.weight, True)
    assert torch.equal(matryoshka(mse, (D,))(*arguments), mse(*arguments))


def test_prefixes_are_averaged() -> None:
    views = a_batch()

    def at(k: int) -> Tensor:
        return mse(views.source[:, :k], views.target[:, :k], needed(views.teacher)[:, :k], views.weight)

    arguments = (views.source, views.target, needed(views.teacher), views.weight)
    assert torch.allclose(matryoshka(mse, (D, 2))(*arguments), (at(D) + at(2)) / 2)
    assert torch.allclose(matryoshka(mse, (1, D))(*arguments), (at(1) + at(D)) / 2)


def test_arguments_by_name_are_cut_too() -> None:
    views = a_batch()
    assert views.negatives is not None and views.negative_group is not None
    found = matryoshka(ranking, (2,))(
        views.source,
        target=views.target,
        group=views.group,
        weight=views.weight,
        margin=0.1,
        negatives=views.negatives,
        negative_group=views.negative_group,
        negative_weight=views.negative_weight,
    )
    wanted = ranking(
        views.source[:, :2],
        views.target[:, :2],
        views.group,
        views.weight,
        margin=0.1,
        negatives=views.negatives[:, :2],
        negative_group=views.negative_group,
        negative_weight=views.negative_weight,
    )
    assert torch.equal(found, wanted)


def test_a_prefix_longer_than_the_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="have 4"):
        matryoshka(mse, (8,))(torch.eye(4), torch.eye(4), torch.eye(4))

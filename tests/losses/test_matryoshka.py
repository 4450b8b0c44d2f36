"""Prefixes of every vector, weighed as the formula says; at full length the loss itself."""

import pytest
import torch
from torch import Tensor

from isogloss.losses.matryoshka import matryoshka
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from losses.drawn import D, a_batch


def test_the_full_length_alone_is_the_loss_itself() -> None:
    views = a_batch()
    arguments = (views.source, views.target, views.taught(), views.weight, True)
    assert torch.equal(matryoshka(mse, (D,))(*arguments), mse(*arguments))


def test_prefixes_are_averaged_by_their_weights() -> None:
    views = a_batch()

    def at(k: int) -> Tensor:
        return mse(views.source[:, :k], views.target[:, :k], views.taught()[:, :k], views.weight)

    arguments = (views.source, views.target, views.taught(), views.weight)
    assert torch.allclose(matryoshka(mse, (D, 2))(*arguments), (at(D) + at(2)) / 2)
    assert torch.allclose(matryoshka(mse, (2, 3, D), (1, 0, 3))(*arguments), (at(2) + 3 * at(D)) / 4)
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


@pytest.mark.parametrize(
    ("dimensions", "weights"), [((), None), ((0,), None), ((2,), (1.0, 2.0)), ((2, 3), (0.0, 0.0)), ((2, 3), (2.0, -1.0))]
)
def test_what_makes_no_sense_is_refused(dimensions: tuple[int, ...], weights: tuple[float, ...] | None) -> None:
    with pytest.raises(ValueError, match="dimensions"):
        matryoshka(mse, dimensions, weights)


def test_a_prefix_longer_than_the_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="have 4"):
        matryoshka(mse, (8,))(torch.eye(4), torch.eye(4), torch.eye(4))

"""Matrices decay, biases and norms do not; each optimizer gets its own settings; rates reach it, as floats or in place."""

import pytest
import torch
from torch import nn

from isogloss.config import Optimizer
from isogloss.errors import ModelError
from isogloss.training.lars import LARS
from isogloss.training.optimizer import choose, decay_groups, set_rate


def small_model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3), nn.LayerNorm(3))


def moved(model: nn.Module, optimizer: torch.optim.Optimizer, slope: float = 0.0) -> list[float]:
    """How far each parameter went in one step along a constant gradient."""
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, slope)
    optimizer.step()
    return [float((parameter.detach() - old).norm()) for parameter, old in zip(model.parameters(), before, strict=True)]


@pytest.mark.parametrize("name", ["adamw", "lars"])
def test_matrices_decay_and_all_else_does_not(name: Optimizer) -> None:
    model = small_model()
    nn.init.ones_(model[1].bias)  # type: ignore[arg-type]
    decayed, kept = choose(name, model.named_parameters(), 0.1, 0.5).param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(5, 3), (3, 3)] and decayed["weight_decay"] == 0.5
    assert len(kept["params"]) == 3 and kept["weight_decay"] == 0.0
    distances = moved(model, choose(name, model.named_parameters(), 0.1, 0.5))
    assert [distance > 0 for distance in distances] == [True, True, False, False, False]


def test_frozen_parameters_are_left_out_and_no_group_is_empty() -> None:
    model = small_model()
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim == 1)
    (group,) = decay_groups(model.named_parameters(), 0.1)
    assert len(group["params"]) == 3 and group["weight_decay"] == 0.0
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ModelError, match="no parameter that may be trained"):
        choose("adamw", model.named_parameters(), 0.1, 0.0)


def test_each_gets_the_rate_and_the_decay() -> None:
    named = list(small_model().named_parameters())
    kinds: dict[Optimizer, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "lars": LARS}
    for name, kind in kinds.items():
        optimizer = choose(name, named, 0.1, 0.2)
        assert isinstance(optimizer, kind)
        assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"]) == (0.1, 0.2)


def test_adamw_is_fused_where_torch_can() -> None:
    model = small_model()
    assert choose("adamw", model.named_parameters(), 0.1, 0.0).param_groups[0]["fused"]
    elsewhere = model.to("meta")
    assert not choose("adamw", elsewhere.named_parameters(), 0.1, 0.0).param_groups[0]["fused"]


@pytest.mark.parametrize("name", ["adamw", "lars"])
def test_a_rate_in_a_tensor_is_changed_in_place_and_moves_as_far(name: Optimizer) -> None:
    distances = []
    for capturable in (False, True):
        model = small_model()
        optimizer = choose(name, model.named_parameters(), 0.0, 0.1, capturable=capturable)
        rates = [group["lr"] for group in optimizer.param_groups]
        assert [isinstance(rate, torch.Tensor) for rate in rates] == [capturable] * 2
        assert sum(moved(model, optimizer, 1.0)) == 0
        set_rate(optimizer, 0.25)
        assert [float(group["lr"]) for group in optimizer.param_groups] == [0.25] * 2
        assert not capturable or [float(rate) for rate in rates] == [0.25] * 2
        distances.append(moved(model, optimizer, 1.0))
    assert all(distance > 0 for distance in distances[0])
    assert distances[0] == pytest.approx(distances[1], rel=1e-5)

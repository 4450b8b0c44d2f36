"""The optimizer: AdamW (Reimers & Gurevych 2020) or LARS (Ham & Kim 2021, `lars.py`).

Matrices have weight decay; biases and norms (anything with one dimension) have none.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from isogloss.config import Optimizer
from isogloss.errors import ModelError
from isogloss.training.lars import LARS

FUSED = frozenset({"cpu", "cuda", "mps", "xpu"})  # devices on which torch has AdamW as one kernel


def choose(
    name: Optimizer,
    parameters: Iterable[tuple[str, nn.Parameter]],
    learning_rate: float,
    weight_decay: float,
    *,
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """The optimizer called `name` over those of the named parameters that require a gradient.

    A `capturable` one can be recorded in a CUDA graph: its rate is a tensor on the parameters' device, which `set_rate` writes
    to and replays read.
    """
    groups = decay_groups(parameters, weight_decay)
    trained = [parameter for group in groups for parameter in group["params"]]
    if not trained:
        raise ModelError("the student has no parameter that may be trained", hint="raise training.train_layers, or set it to 0")
    rate = torch.tensor(learning_rate, dtype=torch.float32, device=trained[0].device) if capturable else learning_rate
    if name == "lars":
        return LARS(groups, lr=rate)
    fused = all(parameter.device.type in FUSED and parameter.is_floating_point() for parameter in trained)
    return torch.optim.AdamW(groups, lr=rate, fused=fused or None, capturable=capturable)


def decay_groups(parameters: Iterable[tuple[str, nn.Parameter]], weight_decay: float) -> list[dict[str, Any]]:
    """Matrices with `weight_decay` and all else without; a group that would be empty is left out."""
    trained = [parameter for _, parameter in parameters if parameter.requires_grad]
    matrices = {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay}
    vectors = {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0}
    return [group for group in (matrices, vectors) if group["params"]]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step; a rate that a graph reads is changed in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

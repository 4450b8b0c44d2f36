"""LARS: each matrix moves by a share of its own length, however steep its gradient is (You, Gitman & Ginsburg 2017).

For a matrix w with gradient g, rate γ, momentum m, weight decay β and trust coefficient η:

    λ = η ‖w‖ / (‖g‖ + β ‖w‖)          1 where ‖w‖ or ‖g‖ is zero: there is no length to measure by
    v ← m v + γ λ (g + β w)
    w ← w − v

Biases and norms (anything with one dimension) have λ = 1 and β = 0, as in BYOL, whose settings Ham & Kim (2021) took:
γ = 0.02, m = 0.9, β = 1e-6. It is for large batches and many steps; AdamW (`optimizer.py`) is what the other paper uses.
Clipping the gradient's norm does next to nothing here: λ takes the gradient's length out again.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling.

    A step does not wait for the device, so it can be recorded in a CUDA graph; the rate must be a tensor then.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 0.001,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with zero momentum, which a recorded first step would reset at every replay."""
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            self.state[parameter]["momentum"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; returns what `closure` does, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameters in _by_kind(group["params"]):
                gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
                momenta = [self.state[parameter]["momentum"] for parameter in parameters]
                torch._foreach_mul_(momenta, group["momentum"])
                if parameters[0].ndim > 1:
                    _add_adapted(momenta, parameters, gradients, group)
                else:
                    torch._foreach_add_(momenta, torch._foreach_mul(gradients, group["lr"]))
                torch._foreach_sub_(parameters, momenta)
        return loss


def _by_kind(parameters: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """Those with a gradient, in lists for one kernel: matrices or vectors of one device and type."""
    kinds: dict[tuple[bool, torch.device, torch.dtype], list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            kinds.setdefault((parameter.ndim > 1, parameter.device, parameter.dtype), []).append(parameter)
    return kinds.values()


def _add_adapted(momenta: list[Tensor], parameters: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
    """For matrices, v ← v + γ λ (g + β w), without a second copy of the gradients."""
    # Half-precision norms would make λ coarse; 0-d factors do not change the type of what they multiply.
    precise = torch.promote_types(parameters[0].dtype, torch.float32)
    length = torch.stack(torch._foreach_norm(parameters, 2, precise))
    slope = torch.stack(torch._foreach_norm(gradients, 2, precise))
    ratio = group["trust"] * length / (slope + group["weight_decay"] * length)
    factor = group["lr"] * torch.where((length > 0) & (slope > 0), ratio, 1.0)
    torch._foreach_addcmul_(momenta, gradients, list(factor.unbind()))
    if group["weight_decay"]:
        torch._foreach_addcmul_(momenta, parameters, list((factor * group["weight_decay"]).unbind()))

"""AdamW over all trained parameters in one flat tensor: fp32 master weights, and half-precision copies for the transformer.

One kernel updates all parameters, one norm clips all gradients, and one tensor is reduced over processes. The transformer
computes in bf16 from the copies, and its gradients are bf16. The masters are fp32, since a change of 1e-5 of a weight would be
lost in bf16's 8 bits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from isogloss.kernels.row_adamw import BETAS, EPS, at_step


class FlatParameters:
    """Parameters as views of one tensor. Matrices, which decay, come first; vectors, which do not, after `decaying`."""

    def __init__(self, named: Sequence[tuple[str, nn.Parameter]], dtype: torch.dtype) -> None:
        ordered = sorted(named, key=lambda item: item[1].ndim <= 1)  # stable: matrices first
        self.decaying = sum(parameter.numel() for _, parameter in named if parameter.ndim > 1)
        self.names, self.parameters = [name for name, _ in ordered], [parameter for _, parameter in ordered]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.master = torch.empty(sum(self.sizes), dtype=torch.float32, device=self.parameters[0].device)
        for view, parameter in zip(self.views(self.master), self.parameters, strict=True):
            view.copy_(parameter.detach())
        self.copy = self.master if dtype == torch.float32 else self.master.to(dtype)
        self.gradient = torch.zeros_like(self.copy)
        for view, parameter in zip(self.views(self.copy), self.parameters, strict=True):
            parameter.data = view

    def views(self, flat: Tensor) -> list[Tensor]:
        """A tensor of this layout as views in the parameters' shapes."""
        parts = zip(torch.split(flat, self.sizes), self.parameters, strict=True)
        return [part.view(parameter.shape) for part, parameter in parts]

    def gather(self, gradients: Sequence[Tensor]) -> None:
        """Copy gradients, one per parameter, into the flat gradient."""
        torch._foreach_copy_(self.views(self.gradient), list(gradients))

    def release(self) -> None:
        """Give every parameter its own single-precision memory again."""
        for view, parameter in zip(self.views(self.master), self.parameters, strict=True):
            parameter.data = view.clone()


class FlatAdamW:
    """AdamW over `FlatParameters`; `rates` are the learning rates of all steps."""

    def __init__(self, flat: FlatParameters, rates: Sequence[float], weight_decay: float = 0.0) -> None:
        self.flat, self.weight_decay = flat, weight_decay
        self.first, self.second = torch.zeros_like(flat.master), torch.zeros_like(flat.master)
        device = flat.master.device
        step = torch.arange(len(rates) + 1, dtype=torch.float64)
        self.rate = torch.tensor([0.0, *rates], dtype=torch.float32, device=device)
        self.one, self.two = ((1 - beta**step).float().to(device) for beta in BETAS)
        self.taken = torch.zeros((), dtype=torch.int64, device=device)  # steps of these parameters, which may skip steps
        self.update = update

    def step(self, scale: Tensor, step: Tensor) -> None:
        """Step number `step + 1`, with the gathered gradient times `scale`; no value is read on the host."""
        flat, cut = self.flat, self.flat.decaying
        self.taken += 1
        rate, one, two = at_step(self.rate, step + 1), at_step(self.one, self.taken), at_step(self.two, self.taken)
        for part, decay in ((slice(0, cut), self.weight_decay), (slice(cut, None), 0.0)):
            if len(flat.master[part]):
                copy = None if flat.copy is flat.master else flat.copy[part]
                tensors = (flat.master[part], copy, self.first[part], self.second[part], flat.gradient[part])
                self.update(*tensors, scale, rate, one, two, decay)

    def state_dict(self) -> dict[str, Tensor]:
        """The state of parameters and optimizer."""
        return {"master": self.flat.master, "first": self.first, "second": self.second, "taken": self.taken}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        for name, value in self.state_dict().items():
            value.copy_(state[name])
        self.flat.copy.copy_(self.flat.master)


def update(
    master: Tensor,
    copy: Tensor | None,
    first: Tensor,
    second: Tensor,
    gradient: Tensor,
    scale: Tensor,
    rate: Tensor,
    one: Tensor,
    two: Tensor,
    weight_decay: float,
) -> None:
    """AdamW (Loshchilov & Hutter 2019) in place, as one pass if compiled; `one` and `two` are 1 − βᵗ."""
    beta1, beta2 = BETAS
    seen = gradient.to(torch.float32) * scale
    moment = beta1 * first + (1 - beta1) * seen
    square = beta2 * second + (1 - beta2) * seen * seen
    value = master * (1 - rate * weight_decay) - rate / one * moment / ((square / two).sqrt() + EPS)
    first.copy_(moment)
    second.copy_(square)
    master.copy_(value)
    if copy is not None:
        copy.copy_(value)

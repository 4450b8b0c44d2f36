"""One tensor for all parameters, moved as torch moves each of them; masters keep what half precision cannot."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from isogloss.kernels.flat_adamw import FlatAdamW, FlatParameters

SHAPES = {"weight": (4, 3), "bias": (4,), "scale": (3,), "last": (2, 4), "number": ()}


def parameters(seed: int = 0) -> list[tuple[str, nn.Parameter]]:
    random = torch.Generator().manual_seed(seed)
    return [(name, nn.Parameter(torch.randn(shape, generator=random))) for name, shape in SHAPES.items()]


def dense(named: list[tuple[str, nn.Parameter]], decay: float) -> torch.optim.AdamW:
    matrices = {"params": [one for _, one in named if one.ndim > 1], "weight_decay": decay}
    return torch.optim.AdamW([matrices, {"params": [one for _, one in named if one.ndim <= 1], "weight_decay": 0.0}], lr=1.0)


def at(step: int) -> torch.Tensor:
    return torch.tensor(step)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.1]), st.integers(1, 120), st.floats(0.1, 1.0))
def test_it_is_dense_adamw(seed: int, decay: float, steps: int, scale: float) -> None:
    ours, theirs = parameters(seed), parameters(seed)
    flat, optimizer = FlatParameters(ours, torch.float32), dense(theirs, decay)
    random = torch.Generator().manual_seed(seed + 1)
    rates = (1e-2 * torch.rand(steps, generator=random)).tolist()
    adamw = FlatAdamW(flat, rates, decay)
    names = flat.names
    for step, rate in enumerate(rates):
        gradients = {name: torch.randn(SHAPES[name], generator=random) for name in SHAPES}
        flat.gather([gradients[name] for name in names])
        adamw.step(torch.tensor(scale), at(step))
        for name, one in theirs:
            one.grad = gradients[name] * scale
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    for (name, mine), (_, other) in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-6), name


def test_parameters_are_views_in_their_own_shapes_and_matrices_come_first() -> None:
    named = parameters()
    before = {name: one.detach().clone() for name, one in named}
    flat = FlatParameters(named, torch.float32)
    assert flat.names == ["weight", "last", "bias", "scale", "number"]
    assert flat.decaying == 4 * 3 + 2 * 4 and flat.master.numel() == flat.decaying + 4 + 3 + 1
    assert all(torch.equal(one, before[name]) and one.shape == before[name].shape for name, one in named)
    flat.master.add_(1.0)
    assert all(torch.equal(one, before[name] + 1) for name, one in named)


def test_half_precision_copies_over_masters_that_lose_nothing() -> None:
    named, rates = parameters(), [1e-5] * 300
    start = {name: one.detach().clone() for name, one in named}
    flat = FlatParameters(named, torch.bfloat16)
    adamw = FlatAdamW(flat, rates)
    assert all(one.dtype == torch.bfloat16 for _, one in named)
    assert flat.master.dtype == adamw.first.dtype == torch.float32 and flat.gradient.dtype == torch.bfloat16
    for step in range(300):
        flat.gather([torch.ones_like(one) for one in flat.parameters])
        adamw.step(torch.tensor(1.0), at(step))
        assert torch.equal(flat.copy, flat.master.to(torch.bfloat16)), "the body computes from what was learnt"
    moved = dict(zip(flat.names, flat.views(flat.master), strict=True))
    for name, one in start.items():
        assert torch.allclose(moved[name], one - 300 * 1e-5, atol=2e-6), "300 steps, each too small for bf16, add up"
    flat.release()
    for name, one in named:
        assert one.dtype == torch.float32 and torch.equal(one, moved[name])


def test_after_release_each_parameter_has_its_own_memory() -> None:
    named = parameters()
    flat = FlatParameters(named, torch.float32)
    flat.release()
    before = {name: one.detach().clone() for name, one in named}
    flat.master.zero_()
    assert all(torch.equal(one, before[name]) for name, one in named)
    assert len({one.untyped_storage().data_ptr() for _, one in named}) == len(named)


def test_a_state_is_taken_up_exactly() -> None:
    random = torch.Generator().manual_seed(4)
    gradients = [torch.randn(28, generator=random) for _ in range(20)]
    rates = [1e-2] * 20

    def take(adamw: FlatAdamW, first: int, last: int) -> None:
        for step in range(first, last):
            adamw.flat.gradient.copy_(gradients[step])
            adamw.step(torch.tensor(0.5), at(step))

    whole = FlatAdamW(FlatParameters(parameters(), torch.bfloat16), rates, 0.1)
    cut = FlatAdamW(FlatParameters(parameters(), torch.bfloat16), rates, 0.1)
    take(whole, 0, 20)
    take(cut, 0, 11)
    continued = FlatAdamW(FlatParameters(parameters(seed=9), torch.bfloat16), rates, 0.1)
    continued.load_state_dict({name: one.clone() for name, one in cut.state_dict().items()})
    assert torch.equal(continued.flat.copy, cut.flat.copy)
    take(continued, 11, 20)
    assert torch.equal(whole.flat.master, continued.flat.master)

"""LARS against its formula in loops over float64 numbers, and what it promises about lengths, types and checkpoints."""

import copy
import io
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from isogloss.training.lars import LARS

Numbers = list[float]


def lars_by_definition(
    weight: Numbers, slopes: list[Numbers], rates: Numbers, matrix: bool, m: float, beta: float, eta: float
) -> Numbers:
    """You et al. (2017), algorithm 1, one number at a time; what has one dimension takes plain steps with momentum."""
    weight, velocity = list(weight), [0.0] * len(weight)
    for slope, rate in zip(slopes, rates, strict=True):
        ratio, decay = 1.0, 0.0
        if matrix:
            decay = beta
            length = math.sqrt(sum(w * w for w in weight))
            steepness = math.sqrt(sum(g * g for g in slope))
            if length > 0 and steepness > 0:
                ratio = eta * length / (steepness + beta * length)
        for i in range(len(weight)):
            velocity[i] = m * velocity[i] + rate * ratio * (slope[i] + decay * weight[i])
        weight = [w - v for w, v in zip(weight, velocity, strict=True)]
    return weight


some_shape = st.sampled_from([(3,), (1,), (2, 3), (1, 4), (3, 1, 2)])


@given(
    st.lists(st.tuples(some_shape, st.sampled_from(["usual", "zero weight", "zero slope"])), min_size=1, max_size=5),
    st.lists(st.floats(0, 2), min_size=1, max_size=4),
    st.floats(0, 0.99),
    st.sampled_from([0.0, 1e-6, 0.1]),
    st.sampled_from([0.001, 0.5]),
    st.booleans(),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_it_equals_the_formula(
    kinds: list[tuple[tuple[int, ...], str]],
    rates: Numbers,
    momentum: float,
    decay: float,
    trust: float,
    as_tensor: bool,
    seed: int,
) -> None:
    random = torch.Generator().manual_seed(seed)
    parameters = [nn.Parameter(torch.randn(shape, generator=random, dtype=torch.float64)) for shape, _ in kinds]
    slopes = [[torch.randn(shape, generator=random, dtype=torch.float64) for _ in rates] for shape, _ in kinds]
    for (_, kind), parameter, slope in zip(kinds, parameters, slopes, strict=True):
        if kind == "zero weight":
            parameter.data.zero_()
        if kind == "zero slope":
            slope[0].zero_()
    expected = [
        lars_by_definition(
            parameter.flatten().tolist(),
            [one.flatten().tolist() for one in slope],
            rates,
            parameter.ndim > 1,
            momentum,
            decay,
            trust,
        )
        for parameter, slope in zip(parameters, slopes, strict=True)
    ]
    rate = torch.tensor(0.0, dtype=torch.float64) if as_tensor else 0.0
    optimizer = LARS(parameters, lr=rate, momentum=momentum, weight_decay=decay, trust=trust)
    for number, value in enumerate(rates):
        if isinstance(rate, Tensor):
            rate.fill_(value)
        else:
            optimizer.param_groups[0]["lr"] = value
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter.grad = slope[number].clone()
        optimizer.step()
    for parameter, numbers in zip(parameters, expected, strict=True):
        assert parameter.flatten().tolist() == pytest.approx(numbers, rel=1e-9, abs=1e-12)


def test_defaults_are_those_of_the_papers() -> None:
    group = LARS([nn.Parameter(torch.ones(2, 2))], lr=0.02).param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"], group["trust"]) == (0.02, 0.9, 1e-6, 0.001)


@given(st.floats(1e-6, 1e6), st.integers(0, 100))
@settings(deadline=None)
def test_a_steeper_gradient_does_not_change_the_first_step_of_a_matrix(scale: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    start, slope = (torch.randn(4, 5, generator=random, dtype=torch.float64) for _ in range(2))

    def moved(by: float, decay: float) -> Tensor:
        parameter = nn.Parameter(start.clone())
        parameter.grad = slope * by
        LARS([parameter], lr=0.5, weight_decay=decay).step()
        return parameter.detach() - start

    assert torch.allclose(moved(scale, 0.0), moved(1.0, 0.0), rtol=1e-9, atol=0)
    assert moved(scale, 0.0).norm() == pytest.approx(0.5 * 0.001 * float(start.norm()))


def test_a_steeper_gradient_moves_a_vector_further() -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.full((3,), 100.0)
    LARS([parameter], lr=0.5, weight_decay=1.0).step()
    assert parameter.tolist() == [-49.0] * 3


def test_what_has_no_gradient_stays() -> None:
    still, moving = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    moving.grad = torch.ones(2, 2)
    LARS([still, moving], lr=1.0, weight_decay=0.5).step()
    assert torch.equal(still, torch.ones(2, 2)) and not torch.equal(moving, torch.ones(2, 2))
    assert torch.equal(moving.grad, torch.ones(2, 2)), "gradients are read, not changed"


def test_groups_have_rates_and_types_of_their_own() -> None:
    parameters = [nn.Parameter(torch.ones(2, 2, dtype=kind)) for kind in (torch.float32, torch.bfloat16, torch.float64)]
    groups: list[dict[str, Any]] = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.0}]
    optimizer = LARS(groups, lr=500.0, momentum=0.0, weight_decay=0)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert [parameter.flatten()[0].item() for parameter in parameters] == [0.5, 0.5, 1.0]


def test_lengths_of_half_precision_matrices_are_measured_precisely() -> None:
    """√201 is not a bfloat16: rounded before it is multiplied by the rate, it would give other numbers."""
    rates = [1000.0 + 20 * number for number in range(50)]
    moved = []
    for rate in rates:
        parameter = nn.Parameter(torch.ones(3, 67, dtype=torch.bfloat16))
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad[0, 0] = 1
        optimizer = LARS([parameter], lr=rate, weight_decay=0.0)
        optimizer.step()
        moved.append(optimizer.state[parameter]["momentum"][0, 0].item())
    assert moved == (torch.tensor(rates) * 0.001 * 201**0.5).bfloat16().tolist()


def test_a_closure_is_called_with_gradients_on() -> None:
    parameter = nn.Parameter(torch.ones(2, 2))
    optimizer = LARS([parameter], lr=1.0)

    def closure() -> float:
        loss = parameter.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    assert optimizer.step(closure) == 4.0
    assert not torch.equal(parameter, torch.ones(2, 2))


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Which operations torch is asked for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_a_step_reads_no_number_back_and_makes_no_state() -> None:
    """What a CUDA graph cannot record: numbers that come to the host, and momentum that is born inside."""
    parameters = [nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3))]
    optimizer = LARS(parameters, lr=torch.tensor(0.1))
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    before = [optimizer.state[parameter]["momentum"].data_ptr() for parameter in parameters]
    with Calls() as calls:
        optimizer.step()
    assert calls.names and not calls.names & {"_local_scalar_dense", "item", "nonzero", "is_nonzero", "zeros_like", "_to_copy"}
    assert [optimizer.state[parameter]["momentum"].data_ptr() for parameter in parameters] == before
    assert all(optimizer.state[parameter]["momentum"].any() for parameter in parameters)


def test_it_goes_on_from_a_saved_state_as_if_nothing_had_happened() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    slopes = [[torch.randn_like(parameter) for parameter in model.parameters()] for _ in range(4)]

    def walk(of: nn.Module, optimizer: LARS, steps: list[list[Tensor]]) -> None:
        for step in steps:
            for parameter, slope in zip(of.parameters(), step, strict=True):
                parameter.grad = slope
            optimizer.step()

    optimizer = LARS(model.parameters(), lr=0.3, momentum=0.8, weight_decay=0.1, trust=0.2)
    walk(model, optimizer, slopes[:2])
    file, other = io.BytesIO(), copy.deepcopy(model)
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    restored = LARS(other.parameters(), lr=9.0)
    restored.load_state_dict(torch.load(file, weights_only=True))
    walk(model, optimizer, slopes[2:])
    walk(other, restored, slopes[2:])
    assert all(torch.equal(one, same) for one, same in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.gpu
def test_a_recorded_step_follows_the_rate_and_equals_the_plain_one() -> None:
    torch.manual_seed(5)
    shapes = [(64, 32), (32,), (8, 8), (8, 8)]
    start = [torch.randn(shape, device="cuda") for shape in shapes]
    start[3].zero_()
    results: list[list[Tensor]] = []
    for recorded in (False, True):
        parameters = [nn.Parameter(one.clone()) for one in start]
        rate = torch.zeros((), device="cuda")
        optimizer = LARS(parameters, lr=rate, weight_decay=0.01, trust=0.1)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        graph = torch.cuda.CUDAGraph()
        if recorded:
            with torch.cuda.graph(graph):
                optimizer.step()
        random = torch.Generator("cuda").manual_seed(7)
        for step in range(4):
            rate.fill_(0.1 * (step + 1))
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad.copy_(torch.randn(parameter.shape, generator=random, device="cuda"))
            if recorded:
                graph.replay()
            else:
                optimizer.step()
        results.append([parameter.detach() for parameter in parameters])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))

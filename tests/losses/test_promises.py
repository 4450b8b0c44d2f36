"""What every loss of the folder promises: about padding, order, precision, gradients, and being compiled whole."""

import dataclasses
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.config import LossSettings
from isogloss.config.sections import LOSSES as NAMES
from isogloss.losses.combined import CombinedLoss, LossBatch, needed
from isogloss.losses.moving_teacher import follow_
from losses.drawn import LOSSES, a_batch, batches, drawn, gradients, tracked

EVERY_WEIGHT: dict[str, Any] = dict.fromkeys(NAMES, 1.0)
ALL = CombinedLoss(LossSettings(**EVERY_WEIGHT, margin=0.1, dimensions=(3,)))
each = pytest.mark.parametrize("name", LOSSES)


def converted(views: LossBatch, dtype: torch.dtype) -> LossBatch:
    vectors = {name: getattr(views, name).to(dtype) for name in ("source", "target", "teacher", "negatives")}
    return dataclasses.replace(views, **vectors)


@each
@given(batches(), st.sampled_from([0.0, 1e30, math.inf, math.nan]))
@settings(deadline=None, max_examples=15)
def test_padding_changes_nothing_whatever_it_holds(name: str, views: LossBatch, filling: float) -> None:
    other, leaves = tracked(filled(views, filling))
    plain, plain_leaves = tracked(filled(views, 1.0))
    value, wanted = LOSSES[name](other), LOSSES[name](plain)
    assert torch.equal(value, wanted)
    for slope, right in zip(gradients(value, leaves), gradients(wanted, plain_leaves), strict=True):
        assert torch.equal(slope, right)


def filled(views: LossBatch, filling: float) -> LossBatch:
    """The same batch with other padding."""
    kept = {name: getattr(views, name).nan_to_num(filling, filling) for name in ("source", "target", "teacher", "negatives")}
    return dataclasses.replace(views, **kept)


@each
@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=10)
def test_the_order_of_pairs_does_not_matter(name: str, random: Random) -> None:
    views = a_batch()
    order = list(range(len(views.source)))
    random.shuffle(order)
    names = ("source", "target", "teacher", "group", "weight", "target_group")
    shuffled = dataclasses.replace(views, **{name: getattr(views, name)[order] for name in names})
    assert torch.allclose(LOSSES[name](shuffled), LOSSES[name](views), rtol=1e-12)


@each
def test_without_weights_all_pairs_count_once(name: str) -> None:
    views = drawn(5, [0, 1, 0, 2], [1, 1, 1, 1], [(0, 1), (-1, 1)])
    bare = dataclasses.replace(views, weight=None, negative_weight=None)
    assert torch.equal(LOSSES[name](bare), LOSSES[name](views))


@each
def test_padding_alone_is_no_loss(name: str) -> None:
    views, leaves = tracked(drawn(5, [0, 1, 0], [0, 0, 0], [(0, 0), (1, 1)]))
    value = LOSSES[name](views)
    assert value.item() == 0
    assert all(not slope.any() for slope in gradients(value, leaves))


@each
def test_a_zero_vector_does_not_break_the_gradient(name: str) -> None:
    views = a_batch(padding=0.0)
    views.source[0], views.target[1], needed(views.teacher)[4] = 0, 0, 0
    views, leaves = tracked(views)
    assert all(slope.isfinite().all() for slope in gradients(LOSSES[name](views), leaves))


@each
def test_gradients_are_those_of_the_value(name: str) -> None:
    views, leaves = tracked(a_batch(padding=1.0))

    def of(source: Tensor, target: Tensor, negatives: Tensor) -> Tensor:
        return LOSSES[name](dataclasses.replace(views, source=source, target=target, negatives=negatives))

    assert torch.autograd.gradcheck(of, leaves)


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    views = converted(a_batch(padding=0.0), dtype)
    value = LOSSES[name](views)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(LOSSES[name](converted(views, torch.float64)).item(), rel=1e-5)


@each
def test_autocast_does_not_lower_it(name: str) -> None:
    views = converted(a_batch(padding=0.0), torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        value = LOSSES[name](views)
    assert torch.equal(value, LOSSES[name](views))


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def everything(*tensors: Tensor) -> Tensor:
    """All losses at two lengths, from a batch made inside, as a training step would."""
    return ALL(LossBatch(*tensors))["loss"]


def tensors_of(views: LossBatch) -> list[Tensor]:
    """Every field, with a live teacher that says what the fixed one does."""
    views = dataclasses.replace(views, moving_teacher=needed(views.teacher))
    return [getattr(views, field.name) for field in dataclasses.fields(views)]


def other_batch(padding: float = math.nan) -> LossBatch:
    """As large as `a_batch`, and otherwise unlike it."""
    groups, counts, hard = [3, 3, 3, 1, 0, 0], [0, 1, 2, 1, 0, 1], [(1, 0), (0, 1), (3, 2), (2, 0)]
    return drawn(8, groups, counts, hard, padding, [5, 6, 7, 6, 3, 1, 7, 9, 2, 6])


@pytest.mark.usefixtures("fresh_compiler")
def test_all_of_it_is_one_graph_for_all_values() -> None:
    """`fullgraph` fails on a break, and the stance on anything that was compiled for one batch only."""
    compiled = torch.compile(everything, fullgraph=True, backend="eager", dynamic=False)
    first, other = a_batch(), other_batch()
    assert torch.allclose(compiled(*tensors_of(first)), everything(*tensors_of(first)))
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.allclose(compiled(*tensors_of(other)), everything(*tensors_of(other)))


@pytest.mark.usefixtures("fresh_compiler")
def test_following_is_one_graph_for_all_taus() -> None:
    compiled = torch.compile(follow_, fullgraph=True, backend="eager")
    teacher, student = [torch.zeros(3), torch.zeros(2, 2)], [torch.ones(3), torch.ones(2, 2)]
    compiled(teacher, student, torch.tensor(0.5, dtype=torch.float64))
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(teacher, student, torch.tensor(0.75, dtype=torch.float64))
    assert all((xi == 0.625).all() for xi in teacher)


@pytest.mark.gpu
def test_a_captured_step_sees_new_values() -> None:
    """Loss, gradient and the teacher's step in one CUDA graph, replayed with another batch and another τ."""
    held = [tensor.cuda() for tensor in tensors_of(converted(a_batch(padding=0.0), torch.float32))]
    for vectors in held[:2]:
        vectors.requires_grad_()
    tau, teacher = torch.tensor(1.0, dtype=torch.float64, device="cuda"), [torch.zeros(4, device="cuda")]
    student = [torch.ones(4, device="cuda")]

    def step() -> tuple[Tensor, ...]:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = everything(*held)
        slopes = torch.autograd.grad(loss, held[:2])
        follow_(teacher, student, tau)
        return loss, *slopes

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    other = other_batch(padding=0.0)
    with torch.no_grad():
        for place, tensor in zip(held, tensors_of(converted(other, torch.float32)), strict=True):
            place.copy_(tensor)
    tau.fill_(0.75)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(teacher[0], torch.full((4,), 0.25, device="cuda"))
    tau.fill_(1.0)
    for value, wanted in zip(found, step(), strict=True):
        assert torch.allclose(value, wanted, atol=1e-5)

"""The loss is the squared difference of cosine and gold / 5, pair by pair, value and gradient."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.losses.sts import sts
from losses.drawn import cosine, sum_of


@given(st.lists(st.floats(0, 5), min_size=1, max_size=8), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_value_and_gradient_equal_the_formula(gold: list[float], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(len(gold), 4, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(2))
    value = sts(u, v, torch.tensor(gold, dtype=torch.float64))
    wanted = sum_of((cosine(u[j], v[j]) - gold[j] / 5) ** 2 for j in range(len(gold))) / len(gold)
    assert torch.allclose(value, wanted, rtol=1e-9, atol=1e-12)
    for slope, right in zip(torch.autograd.grad(value, (u, v)), torch.autograd.grad(wanted, (u, v)), strict=True):
        assert torch.allclose(slope, right, rtol=1e-8, atol=1e-10)


def test_a_zero_vector_has_a_finite_gradient() -> None:
    u = torch.zeros(1, 3, requires_grad=True)
    sts(u, torch.ones(1, 3), torch.tensor([5.0])).backward()  # type: ignore[no-untyped-call]
    assert u.grad is not None and torch.isfinite(u.grad).all()


def test_half_precision_is_computed_in_single() -> None:
    u, v = torch.randn(4, 8).bfloat16(), torch.randn(4, 8).bfloat16()
    gold = torch.tensor([0.0, 1.0, 2.5, 5.0])
    assert sts(u, v, gold).dtype == torch.float32 and torch.equal(sts(u, v, gold), sts(u.float(), v.float(), gold))

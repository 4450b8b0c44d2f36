"""A teacher that slowly follows its student, until the two are one aligned model.

    L = ‖f_θ(t) − f_ξ(s)‖²    mean over pairs             (Ham & Kim 2021, eq. 1)
    ξ ← τ ξ + (1 − τ) θ       after each step             (eq. 2)
    τ = 1 − (1 − τ₀) · (cos(π k / K) + 1) / 2             (§5.3, as in BYOL; k of K steps, τ₀ = 0.99999)

f_θ is the student and sees the translation only, f_ξ the teacher and sees the source; both start from the same weights. As ξ
follows θ, the student is aligned with itself in the end. Compare `mse`: there the teacher is fixed, so its vectors can be
stored, and the student sees the source as well.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from isogloss.losses.batch import pair_weights, real_rows, weighted_mean

TAU_BASE = 0.99999


def moving_teacher(target: Tensor, teacher: Tensor, weight: Tensor | None = None) -> Tensor:
    """Squared distance of the student's translation to the live teacher's source; no gradient goes into the teacher.

    It is the distance of whole vectors, on the scale of `mse`; the paper's value per coordinate would be this over d.
    """
    weight = pair_weights(target, weight)
    target, teacher = real_rows(target, weight), real_rows(teacher.detach(), weight)
    return weighted_mean((target - teacher).square().sum(-1), weight)


def tau_at(step: int, total: int, base: float = TAU_BASE) -> float:
    """Share of itself that the teacher keeps at step `step` of `total`: from `base` to 1."""
    return 1 - (1 - base) * (math.cos(math.pi * step / total) + 1) / 2


def follow_(teacher_params: Sequence[Tensor], student_params: Sequence[Tensor], tau: float | Tensor) -> None:
    """Move the teacher's parameters, in place, the (1 − τ)th part of the way to the student's: ξ ← τ ξ + (1 − τ) θ.

    The teacher's must be float32 at least, since steps of (1 − τ)|θ − ξ| below the precision of ξ are rounded away: at
    1 − τ = 1e-5, float32 follows a student that is 0.6 % away, and bf16 one that is 200 times as large as its teacher.

    `tau` may be a 0-d float64 tensor on the parameters' device, which a CUDA graph reads at each replay; a float32 τ near 1
    would leave too few digits of 1 − τ.
    """
    if any(parameter.dtype in (torch.bfloat16, torch.float16) for parameter in teacher_params):
        raise ValueError("a moving teacher in half precision never moves: keep its parameters in float32")
    with torch.no_grad():
        student = [theta.to(xi.dtype) for xi, theta in zip(teacher_params, student_params, strict=True)]
        way = 1 - tau
        if isinstance(way, Tensor):
            torch._foreach_lerp_(list(teacher_params), student, [way.to(xi.dtype) for xi in teacher_params])
        else:
            torch._foreach_lerp_(list(teacher_params), student, way)

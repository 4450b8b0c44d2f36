"""Multilingual knowledge distillation: the student embeds both sides where the teacher embeds the source sentence.

    L = 1/|B| · Σ_j [ ‖M(s_j) − M̂(s_j)‖² + ‖M(s_j) − M̂(t_j)‖² ]          (Reimers & Gurevych 2020, §2)

M is the teacher, M̂ the student, (s_j, t_j) a pair of the batch B. A student that is trained on translations alone would lose
the source language. Compare `soft_similarity`, which matches similarities and not points, and `moving_teacher`.
"""

from torch import Tensor

from isogloss.losses.batch import pair_weights, real_rows, unit, weighted_mean


def mse(source: Tensor, target: Tensor, teacher: Tensor, weight: Tensor | None = None, normalized: bool = False) -> Tensor:
    """The paper's loss; row j of each argument belongs to pair j.

    `normalized` compares vectors of length 1 (each term is then 2 − 2 cos), for students and teachers whose vector lengths
    differ and have no meaning.
    """
    weight = pair_weights(source, weight)
    source, target, teacher = (real_rows(vectors, weight) for vectors in (source, target, teacher.detach()))
    if normalized:
        source, target, teacher = unit(source), unit(target), unit(teacher)
    distance = (source - teacher).square().sum(-1) + (target - teacher).square().sum(-1)
    return weighted_mean(distance, weight)

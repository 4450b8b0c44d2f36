"""Multilingual knowledge distillation: the student lands where the teacher put the source sentence.

    L = 1/|B| · Σ_j [ ‖M(s_j) − M̂(s_j)‖² + ‖M(s_j) − M̂(t_j)‖² ]          (Reimers & Gurevych 2020, §2)

M is the teacher, M̂ the student, (s_j, t_j) a pair of the batch B. The English side is in the loss on purpose: a student
that only ever saw translations loses the source language.
"""

from torch import Tensor


def mse(source: Tensor, target: Tensor, teacher: Tensor) -> Tensor:
    """The paper's loss; row j of each argument belongs to pair j.

    A sentence that several pairs share is encoded once and its row repeated here: the value, and through autograd the
    gradient, are those of the pairs one by one.
    """
    return ((source - teacher).square().sum() + (target - teacher).square().sum()) / len(teacher)

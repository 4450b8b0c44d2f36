"""Match how similar the teacher finds a sentence to a bank of its own embeddings: what a search of its index depends on.

    p_ik = softmax_k( cos(M(s_i), b_k) / T )                    the teacher; b_1 … b_K are embeddings of other sentences
    q_ik = softmax_k( cos(M̂(s_i), b_k) / T )                    the student's source
    r_ik = softmax_k( cos(M̂(t_i), b_k) / T )                    and its translation

    L = 1/|B| · Σ_i ½ [ KL(p_i ‖ q_i) + KL(p_i ‖ r_i) ]

The loss of SEED (Fang et al. 2021, "SEED: Self-supervised Distillation for Visual Representation", arXiv 2101.04731) with a
fixed bank in place of their queue: the teacher does not change, so its embeddings do not age.

`mse` weighs every direction of the space alike; this loss stresses the directions that tell near neighbors apart. Unlike
`soft_similarity` it compares with the teacher's embeddings and not with the student's own, so it ties the student to the
teacher's space, and the number of candidates does not depend on the batch size.
"""

import torch
from torch import Tensor

from isogloss.losses.batch import pair_weights, real_rows, unit, weighted_mean


def bank_similarity(
    source: Tensor,
    target: Tensor,
    teacher: Tensor,
    bank: Tensor,
    weight: Tensor | None = None,
    temperature: float = 0.07,
) -> Tensor:
    """Mean divergence of the student's similarities to the rows of `bank` from the teacher's.

    A lower temperature is sharper.
    """
    weight = pair_weights(source, weight)
    source, target, teacher = (real_rows(vectors, weight) for vectors in (source, target, teacher.detach()))
    with torch.autocast(source.device.type, enabled=False):
        columns = unit(bank.detach().to(teacher.dtype)).T
        wanted = (unit(teacher) @ columns / temperature).log_softmax(-1)
        logits = unit(torch.cat([source, target])) @ columns / temperature
    from_source, from_target = logits.log_softmax(-1).chunk(2)
    divergence = (wanted.exp() * (wanted - (from_source + from_target) / 2)).sum(-1)
    return weighted_mean(divergence, weight)

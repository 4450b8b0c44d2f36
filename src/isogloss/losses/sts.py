"""Semantic textual similarity: the cosine of two sentences is as high as people rated them alike.

    L = 1/|B| · Σ_j ( cos(u_j, v_j) − g_j / 5 )²          (Reimers & Gurevych 2019, §3; Ham & Kim 2021, §5.1)

g is the gold score, 0 (nothing in common) to 5 (the same meaning). `nli` is the stage before it.
"""

from torch import Tensor

from isogloss.losses.batch import pair_weights, real_rows, unit, weighted_mean

HIGHEST = 5.0  # the gold score of sentences that mean the same


def sts(u: Tensor, v: Tensor, gold: Tensor, weight: Tensor | None = None) -> Tensor:
    """The mean squared difference of cosine and gold / 5; row j of each argument belongs to pair j, weight 0 is padding."""
    weight = pair_weights(u, weight)
    u, v = real_rows(u, weight), real_rows(v, weight)
    return weighted_mean(((unit(u) * unit(v)).sum(-1) - gold.to(u.dtype) / HIGHEST).square(), weight)

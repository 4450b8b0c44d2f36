"""Masked language modeling: predict masked tokens from their context.

    L = −1/|M| · Σ_{i ∈ M} log( exp z_i[x_i] / Σ_v exp z_i[v] )

M are the masked places of the batch, x_i is the token at place i, and z_i are the head's logits of every token v of the
vocabulary (Devlin et al. 2019). Over a sentence with its translation in one sequence it is translation language modeling
(Conneau & Lample 2019). LaBSE's encoder begins with both (Feng et al. 2022). `training/tasks/mlm.py` chooses the masks.
"""

from torch import Tensor
from torch.nn import functional

from isogloss.losses.batch import pair_weights, precise, weighted_mean


def masked(logits: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the tokens `wanted` (M) under `logits` (M × vocabulary); 0 if nothing was masked.

    `weight` (M) is 0 for padding among the places: its rows reach neither value nor gradient.
    """
    weight = pair_weights(logits, weight)
    padding = weight <= 0
    logits = precise(logits).masked_fill(padding[:, None], 0.0)
    cost = functional.cross_entropy(logits, wanted.masked_fill(padding, 0), reduction="none")
    return weighted_mean(cost, weight)

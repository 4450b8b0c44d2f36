"""Masked language modeling: predict hidden tokens from their context.

    L = −1/|M| · Σ_{i ∈ M} log( exp z_i[x_i] / Σ_v exp z_i[v] )

M are the hidden places of the batch, x_i is the token at place i, and z_i are the head's logits of every token v of the
vocabulary (Devlin et al. 2019). Over a sentence with its translation in one sequence it is translation language
modelling (Conneau & Lample 2019): what is hidden on one side may be read on the other. LaBSE's encoder begins with both
(Feng et al. 2022).

Which places are hidden, and what stands there instead, is `training/tasks/mlm.py`. `ranking` sees whole sentences.
"""

from torch import Tensor
from torch.nn import functional

from isogloss.losses.batch import pair_weights, precise, weighted_mean


def masked(logits: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the tokens `wanted` (M) under `logits` (M × vocabulary); 0 where nothing was hidden.

    `weight` (M) is 0 for padding among the places: whatever stands in its rows reaches neither value nor gradient.
    """
    weight = pair_weights(logits, weight)
    padding = weight <= 0
    said = precise(logits).masked_fill(padding[:, None], 0.0)
    surprise = functional.cross_entropy(said, wanted.masked_fill(padding, 0), reduction="none")
    return weighted_mean(surprise, weight)

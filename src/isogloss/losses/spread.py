"""Spread-out regularizer: sentences that say different things should be nearly orthogonal.

    M₁ = mean of cos(x, y)        M₂ = mean of cos(x, y)²        over x, y of pairs that share no text, either language
    L  = M₁² + max(0, M₂ − 1/d)                               (Zhang et al. 2017, global orthogonal regularization)

For directions drawn uniformly in d dimensions M₁ is 0 and M₂ is 1/d, so L is 0 for a space that is used in full. It keeps a
space from collapsing into a narrow cone, which hurts quantization and approximate search first; EmbeddingGemma and
jina-embeddings-v5 train with the second moment. The paper pairs each point with one random sample; here all pairs of the batch
are used. Alone it learns no meaning: give it a small weight beside `mse` or `ranking`.
"""

import torch
from torch import Tensor

from isogloss.losses.batch import cosines, pair_weights, real_rows, weighted_mean


def spread(
    source: Tensor, target: Tensor, group: Tensor, weight: Tensor | None = None, target_group: Tensor | None = None
) -> Tensor:
    """How far the first two moments of the cosine between different sentences are above those of a uniform sphere.

    `group` and `target_group` number the texts of the two sides, as in `ranking`: pairs that share a text may be near.
    """
    weight = pair_weights(source, weight)
    vectors = torch.cat([real_rows(source, weight), real_rows(target, weight)])
    cosine = cosines(vectors, vectors)
    different = (weight[:, None] * weight).masked_fill(_share_a_text(group, target_group), 0.0).tile(2, 2)
    first, second = weighted_mean(cosine, different), weighted_mean(cosine.square(), different)
    return first.square() + (second - 1 / vectors.shape[1]).clamp_min(0.0)


def _share_a_text(group: Tensor, target_group: Tensor | None) -> Tensor:
    """Which pairs have a text in common, on whichever side."""
    same = group[:, None] == group
    if target_group is None:
        return same
    crosswise = group[:, None] == target_group
    return same | (target_group[:, None] == target_group) | crosswise | crosswise.T

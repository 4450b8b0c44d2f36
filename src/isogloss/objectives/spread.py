"""Spread-out regulariser: sentences that say different things should be as good as at right angles.

    M₁ = mean of cos(x, y)        M₂ = mean of cos(x, y)²        over x, y of different sources, either language
    L  = M₁² + max(0, M₂ − 1/d)                               (Zhang et al. 2017, global orthogonal regularisation)

For directions drawn uniformly in d dimensions M₁ is 0 and M₂ is 1/d, so L is 0 for a space that is used in full. It keeps a
space from collapsing into a narrow cone, which hurts under quantisation and approximate search first; EmbeddingGemma and
jina-embeddings-v5 train with the second moment. The paper pairs each point with one sample that does not match; here all
pairs of the batch are taken.

A companion, not an objective: alone it knows no meaning. It pulls against a teacher whose own space is narrow, so weigh it
lightly beside `mse`; beside `ranking`, which also pushes apart, it evens out.
"""

import torch
from torch import Tensor

from isogloss.objectives.rows import cosines, pair_weights, real_rows, weighted_mean


def spread(source: Tensor, target: Tensor, group: Tensor, weight: Tensor | None = None) -> Tensor:
    """How far the first two moments of the cosine between different sentences are above those of a uniform sphere."""
    weight = pair_weights(source, weight)
    vectors = torch.cat([real_rows(source, weight), real_rows(target, weight)])
    group, weight = torch.cat([group, group]), torch.cat([weight, weight])
    cosine = cosines(vectors, vectors)
    different = (weight[:, None] * weight).masked_fill(group[:, None] == group, 0.0)
    first, second = weighted_mean(cosine, different), weighted_mean(cosine.square(), different)
    return first.square() + (second - 1 / vectors.shape[1]).clamp_min(0.0)

"""Translation ranking: of all candidates in the batch, a sentence should be nearest to its own translation.

    a_i = (cos(s_i, t_i) − m) / T

    L→ = −1/|B| · Σ_i log( exp a_i / (exp a_i + Σ_j exp(cos(s_i, t_j)/T) + Σ_k exp(cos(s_i, n_k)/T)) )
    L← = −1/|B| · Σ_i log( exp a_i / (exp a_i + Σ_j exp(cos(t_i, s_j)/T)) )
    L  = L→ + L←                        j: pairs of another source than i;  n_k: hard negatives of another source than i

In-batch softmax with sampled negatives is mUSE's translation task (Chidambaram et al. 2019; hard negatives after Guo et al.
2018); the sum of both directions and the additive margin m, which asks the translation to win by that much cosine, are
LaBSE's (Yang et al. 2019; Feng et al. 2022, with m = 0.3).

Other translations of the same source are right answers, so they are never negatives, in neither direction.

Needs no teacher, and by itself keeps nothing of one: it tells translations from the rest and is blind to how alike the rest
are. Beside `mse` or `soft_similarity` it sharpens retrieval.
"""

import torch
from torch import Tensor

from isogloss.objectives.rows import UNSEEN, cosines, pair_weights, real_rows, seen, weighted_mean


def ranking(
    source: Tensor,
    target: Tensor,
    group: Tensor,
    weight: Tensor | None = None,
    temperature: float = 0.05,
    margin: float = 0.0,
    negatives: Tensor | None = None,
    negative_group: Tensor | None = None,
    negative_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of finding the translation of each source, plus that of finding the source of each translation.

    `negatives` (N×d) are further candidates on the target side, for every source; `negative_group` (N) is the number of the
    source that each one translates, so that it is never a negative of that source (a number no pair has, say −1, where it is
    unknown), and `negative_weight` (N) is 0 for padding among them.
    """
    if (negatives is None) != (negative_group is None):
        raise ValueError("negatives and negative_group belong together: a negative must not be a translation of its source")
    weight = pair_weights(source, weight)
    source, target = real_rows(source, weight), real_rows(target, weight)
    cosine = cosines(source, target)
    right = ((cosine.diagonal() - margin) / temperature)[:, None]
    wrong = (cosine / temperature).masked_fill(group[:, None] == group, UNSEEN)
    targets, sources = [right, wrong + seen(weight)], [right, wrong.T + seen(weight)]
    if negatives is not None and negative_group is not None:
        negative_weight = pair_weights(negatives, negative_weight)
        hard = cosines(source, real_rows(negatives, negative_weight)) / temperature
        targets.append(hard.masked_fill(group[:, None] == negative_group, UNSEEN) + seen(negative_weight))
    surprise = torch.cat(targets, 1).logsumexp(1) + torch.cat(sources, 1).logsumexp(1) - 2 * right[:, 0]
    return weighted_mean(surprise, weight)

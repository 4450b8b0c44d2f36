"""Translation ranking: of all candidates in the batch, a sentence should be nearest to its own translation.

    a_i = (cos(s_i, t_i) − m) / T

    L→ = −1/|B| · Σ_i log( exp a_i / (exp a_i + Σ_j exp(cos(s_i, t_j)/T) + Σ_k exp(cos(s_i, n_k)/T)) )
    L← = −1/|B| · Σ_i log( exp a_i / (exp a_i + Σ_j exp(cos(t_i, s_j)/T)) )
    L  = L→ + L←                        over t_j and n_k that are wrong for s_i, and over s_j that t_i is wrong for

In-batch softmax with sampled negatives is mUSE's translation task (Chidambaram et al. 2019; hard negatives after Guo et al.
2018); the sum of both directions and the additive margin m, which asks the translation to win by that much cosine, are
LaBSE's (Yang et al. 2019; Feng et al. 2022, with m = 0.3).

A text that is right for a source is never its negative, in either direction: any text that a pair of the batch, or of its
hard negatives, has together with the source, and the source itself. This is not transitive: if A and B share a translation,
A's other translations are still wrong for B. Pairs outside of the batch are not considered.

It needs no teacher, and ignores how similar the negatives are to each other. Beside `mse` or `soft_similarity` it improves
retrieval.
"""

import torch
from torch import Tensor

from isogloss.losses.batch import UNSEEN, cosines, pair_weights, real_rows, seen, weighted_mean


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
    target_group: Tensor | None = None,
    negative_target_group: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of finding the translation of each source, plus that of finding the source of each translation.

    `group` and `target_group` number the texts of the two sides: equal numbers are the same text, on either side. Without the
    latter every translation counts as a text of its own.

    `negatives` (N×d) are further candidates on the target side, for every source. `negative_group` (N) is the number of the
    source that each one translates (a number no pair has, say −1, where it is unknown), `negative_target_group` (N) that of
    its own text, and `negative_weight` (N) is 0 for padding among them.
    """
    if (negatives is None) != (negative_group is None):
        raise ValueError("negatives and negative_group belong together: a negative must not be a translation of its source")
    if negatives is not None and (target_group is None) != (negative_target_group is None):
        raise ValueError("target_group and negative_target_group belong together: a text has one number, on either side")
    weight = pair_weights(source, weight)
    source, target = real_rows(source, weight), real_rows(target, weight)
    cosine = cosines(source, target)
    right = ((cosine.diagonal() - margin) / temperature)[:, None]
    sources_of, texts, count, candidates = group, target_group, weight, cosine
    if negatives is not None and negative_group is not None:
        negative_weight = pair_weights(negatives, negative_weight)
        candidates = torch.cat([cosine, cosines(source, real_rows(negatives, negative_weight))], 1)
        sources_of, count = torch.cat([group, negative_group]), torch.cat([weight, negative_weight])
        if target_group is not None and negative_target_group is not None:
            texts = torch.cat([target_group, negative_target_group])
    pairs = len(group)
    wrong = (candidates / temperature).masked_fill(_right(pairs, sources_of, texts, count > 0), UNSEEN)
    targets, sources = wrong + seen(count), wrong[:, :pairs].T + seen(weight)
    cost = torch.cat([right, targets], 1).logsumexp(1) + torch.cat([right, sources], 1).logsumexp(1) - 2 * right[:, 0]
    return weighted_mean(cost, weight)


def _right(pairs: int, source: Tensor, text: Tensor | None, real: Tensor) -> Tensor:
    """Which texts are right for the sources of the first `pairs` rows (pairs × rows).

    Every text is represented by the first row that has it, every source by the first of the pairs. A table of sources × texts
    marks those that a real row has together; its last line is for rows with other sources.
    """
    if text is None:
        return source[:pairs, None] == source
    same = source[:, None] == source[:pairs]
    line, column = _first(same), _first(text[:, None] == text)
    marked = torch.where(same.any(1) & real, line, pairs) * len(source) + column
    table = torch.zeros((pairs + 1) * len(source), dtype=torch.bool, device=source.device).index_fill(0, marked, True)
    together = table.view(pairs + 1, len(source))[line[:pairs]][:, column]
    return together | (source[:pairs, None] == text)


def _first(same: Tensor) -> Tensor:
    """The first column that is true, for each row."""
    return same.to(torch.uint8).argmax(1)

"""Translation: from a sentence's vector alone, a decoder should write its translation word by word.

    p_jt = softmax(W h_jt + b)                                h_jt: the decoder's state after the true words before t

    L = −1/N · Σ_jt [ (1 − ε) log p_jt(y_jt) + ε/|V| · Σ_v log p_jt(v) ]              over the N words that are no padding

Teacher-forced cross-entropy, LASER's only loss (Artetxe & Schwenk 2019, §3; ε = 0), with label smoothing as an option
(Szegedy et al. 2016). A vector must hold what its translation says, so sentences that mean the same get similar vectors, though
nothing here compares two. Compare `ranking`, which does. `training/tasks/translate.py` has the decoder.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from isogloss.losses.batch import precise

AT_ONCE = 8192  # positions whose scores over the whole vocabulary exist at a time


def translation(
    states: Tensor,
    target: Tensor,
    project: Callable[[Tensor], Tensor],
    padding: int,
    smoothing: float = 0.0,
    at_once: int = AT_ONCE,
) -> Tensor:
    """Mean cross-entropy of the target words that are not padding.

    `states` (… × d) are the decoder's, `target` (…) the words that should follow, `project` gives a state's score of every
    word. Scores are many times larger than states: of more than `at_once` positions they are computed a part at a time,
    and again on the way back.
    """
    states, target = states.flatten(0, -2), target.flatten()

    def cost(chunk: Tensor, words: Tensor) -> Tensor:
        scores = precise(project(chunk))
        return torch.nn.functional.cross_entropy(
            scores, words, ignore_index=padding, reduction="sum", label_smoothing=smoothing
        )

    if len(states) <= at_once:
        total = cost(states, target)
    else:
        parts = zip(torch.split(states, at_once), torch.split(target, at_once), strict=True)
        again: Callable[..., Tensor] = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        total = torch.stack([again(cost, chunk, words) for chunk, words in parts]).sum()
    return total / (target != padding).sum().clamp(min=1)

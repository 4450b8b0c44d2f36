"""Translation: from a sentence's vector alone, a decoder should write its translation word by word.

    p_jt = softmax(W h_jt + b)                                h_jt: the decoder's state after the true words before t

    L = −1/N · Σ_jt [ (1 − ε) log p_jt(y_jt) + ε/|V| · Σ_v log p_jt(v) ]              over the N words that are no padding

Teacher-forced cross-entropy, LASER's only loss (Artetxe & Schwenk 2019, §3; ε = 0), with label smoothing as an option
(Szegedy et al. 2016). What a vector does not hold cannot be translated from it, in whatever language it came; so sentences
that mean the same come to lie together, though nothing here compares two vectors. Compare `ranking`, which does.
`training/tasks/translate.py` has the decoder.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

AT_ONCE = 8192  # positions whose scores over the whole vocabulary exist at a time


def translation(
    states: Tensor,
    target: Tensor,
    project: Callable[[Tensor], Tensor],
    padding: int,
    smoothing: float = 0.0,
    at_once: int = AT_ONCE,
) -> Tensor:
    """Mean over real target words of the surprise at each; padding alone costs nothing.

    `states` (… × d) are the decoder's, `target` (…) the words that should follow, `project` gives a state's score of every
    word. Scores are many times larger than states: of more than `at_once` positions they are computed a part at a time,
    and again on the way back.
    """
    states, target = states.flatten(0, -2), target.flatten()

    def surprise(chunk: Tensor, words: Tensor) -> Tensor:
        scores = project(chunk)
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        return torch.nn.functional.cross_entropy(
            scores, words, ignore_index=padding, reduction="sum", label_smoothing=smoothing
        )

    parts = list(zip(torch.split(states, at_once), torch.split(target, at_once), strict=True))
    if len(parts) == 1:
        total = surprise(states, target)
    else:
        total = torch.stack([_again(surprise, chunk, words) for chunk, words in parts]).sum()
    return total / (target != padding).sum().clamp(min=1)


def _again(surprise: Callable[[Tensor, Tensor], Tensor], chunk: Tensor, words: Tensor) -> Tensor:
    found: Tensor = checkpoint(surprise, chunk, words, use_reentrant=False, preserve_rng_state=False)
    return found

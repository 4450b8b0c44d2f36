"""What all losses share: precision, padding, weights and cosines of the rows of a batch."""

import torch
from torch import Tensor
from torch.nn import functional

# Added to logits that must not count. It is finite, since a row of −inf has a NaN gradient, and so far below any cosine over a
# temperature that its share is exactly 0 in float32.
UNSEEN = -1e30


def precise(values: Tensor) -> Tensor:
    """The same values in float32 if they came in half precision: sums over a batch need more digits than bf16 has."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def pair_weights(vectors: Tensor, weight: Tensor | None) -> Tensor:
    """How often each row of `vectors` counts: `weight`, or 1 for each."""
    like = precise(vectors.detach())
    return like.new_ones(len(like)) if weight is None else weight.detach().to(like.dtype)


def real_rows(vectors: Tensor, weight: Tensor) -> Tensor:
    """The vectors with padding set to zero, so that nothing in it, not even NaN, reaches a value or a gradient."""
    return precise(vectors).masked_fill((weight <= 0)[:, None], 0.0)


def unit(vectors: Tensor) -> Tensor:
    """The same directions at length 1; a zero vector stays zero, with a gradient that is finite."""
    return functional.normalize(vectors, dim=-1)


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of every row of one with every row of the other; not in bf16, even where autocast would have it."""
    with torch.autocast(left.device.type, enabled=False):
        return unit(left) @ unit(right).T


def seen(weight: Tensor) -> Tensor:
    """What to add to the logits of candidates that count `weight` times: log w, and `UNSEEN` at 0."""
    return weight.log().masked_fill(weight <= 0, UNSEEN)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Σ w v / Σ w; 0 where there is no weight at all, as in a batch of padding alone."""
    return (weight * values).sum() / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)

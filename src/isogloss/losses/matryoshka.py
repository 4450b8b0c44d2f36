"""Embeddings that can be truncated: the same loss, computed on prefixes of the vectors too.

    L = 1/K · Σ_k ℓ(first k coordinates of every vector)            (after Kusupati et al. 2022)

It is the mean, where the paper has the sum, so that a loss has the same scale with and without prefixes.

Losses of cosines bring prefixes to length 1 themselves. `mse` compares them with the teacher's prefix: that only gives early
coordinates a higher weight, and helps as far as the teacher's own prefixes are useful; with `normalized` the prefix's
direction counts.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec

from torch import Tensor

P = ParamSpec("P")


def matryoshka(loss: Callable[P, Tensor], dimensions: Sequence[int]) -> Callable[P, Tensor]:
    """The mean of `loss` over the first k coordinates of its vectors, for each k of `dimensions`.

    Vectors are the arguments with two dimensions; everything else (group, weight, numbers) is passed on unchanged.
    """
    truncated: Callable[..., Tensor] = loss  # no type can express the same arguments, truncated

    def over_prefixes(*args: object, **kwargs: object) -> Tensor:  # P.args in its place would stop torch.compile
        parts = []
        for length in dimensions:
            named = {name: prefix(value, length) for name, value in kwargs.items()}
            parts.append(1 / len(dimensions) * truncated(*(prefix(value, length) for value in args), **named))
        return sum(parts[1:], parts[0])

    return over_prefixes


def prefix(value: object, length: int) -> object:
    """The first coordinates of vectors; anything else unchanged."""
    if not isinstance(value, Tensor) or value.ndim != 2:
        return value
    if length > value.shape[1]:
        raise ValueError(f"a prefix of {length} coordinates was asked for, but the vectors have {value.shape[1]}")
    return value[:, :length]

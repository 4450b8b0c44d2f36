"""Vectors that can be cut: the same loss, asked of prefixes of the vectors too.

    L = Σ_k c_k · ℓ(first k coordinates of every vector) / Σ_k c_k            (after Kusupati et al. 2022)

The mean, where the paper has the sum, so that a loss weighs the same against its neighbours with and without prefixes.

What a prefix is compared to is the loss's own business. Losses of cosines bring prefixes to length 1 themselves. `mse` sets
them beside the teacher's prefix: by itself that only weighs early coordinates higher, so it is worth as much as the
teacher's own prefixes are; with `normalized` the prefix's direction counts.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec

from torch import Tensor

P = ParamSpec("P")


def matryoshka(
    loss: Callable[P, Tensor], dimensions: Sequence[int], weights: Sequence[float] | None = None
) -> Callable[P, Tensor]:
    """`loss` over the first k coordinates of its vectors, for each k of `dimensions`, averaged by `weights` (or evenly).

    Vectors are the arguments with two dimensions; everything else (group, weight, numbers) is handed on as it is.
    """
    counts = [1.0] * len(dimensions) if weights is None else [float(weight) for weight in weights]
    if not dimensions or min(dimensions) < 1:
        raise ValueError(f"dimensions must be at least one length of 1 or more, not {tuple(dimensions)}")
    if len(counts) != len(dimensions) or min(counts) < 0 or not sum(counts):
        raise ValueError(f"{len(dimensions)} dimensions need as many weights, none negative and one positive, not {counts}")
    share_of = [(length, count / sum(counts)) for length, count in zip(dimensions, counts, strict=True) if count]
    of_prefixes: Callable[..., Tensor] = loss  # the same arguments, cut: no type can say so

    def over_prefixes(*args: object, **kwargs: object) -> Tensor:  # P.args in its place would stop torch.compile
        parts = []
        for length, share in share_of:
            named = {name: cut(value, length) for name, value in kwargs.items()}
            parts.append(share * of_prefixes(*(cut(value, length) for value in args), **named))
        return sum(parts[1:], parts[0])

    return over_prefixes


def cut(value: object, length: int) -> object:
    """The first coordinates of vectors; anything else as it is."""
    if not isinstance(value, Tensor) or value.ndim != 2:
        return value
    if length > value.shape[1]:
        raise ValueError(f"a prefix of {length} coordinates was asked for, but the vectors have {value.shape[1]}")
    return value[:, :length]

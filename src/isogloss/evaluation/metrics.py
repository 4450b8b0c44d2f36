"""Metrics on embeddings and scores: arrays in, numbers out. `bootstrap` computes their confidence intervals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from isogloss.types import BoolArray, FloatArray, IntArray

Doubles = NDArray[np.float64]


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors scaled to length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: FloatArray = (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return scaled


def hits(found: IntArray, accepted: list[set[int]]) -> BoolArray:
    """For each query, whether the row that was found is an accepted answer."""
    return np.array([row in right for row, right in zip(found.tolist(), accepted, strict=True)], dtype=bool)


def cosines(left: FloatArray, right: FloatArray) -> Doubles:
    """Cosine of row i of one with row i of the other; 0 with a vector of zeros."""
    lengths = np.sqrt(dots(left, left) * dots(right, right))
    return dots(left, right) / np.where(lengths > 0, lengths, 1.0)


def dots(left: NDArray[np.floating], right: NDArray[np.floating]) -> Doubles:
    """Dot product of row i of one with row i of the other.

    In double precision, where the cosine of a vector with itself is 1: pairs of identical sentences are ties.
    """
    products: Doubles = np.einsum("rd,rd->r", left, right, dtype=np.float64)
    return products


def minus_distances(left: FloatArray, right: FloatArray) -> Doubles:
    """Euclidean distance between row i of one and row i of the other, negated so that higher means more similar."""
    apart = left.astype(np.float64) - right
    return -np.sqrt(dots(apart, apart))


SIMILARITIES: dict[str, Callable[[FloatArray, FloatArray], Doubles]] = {
    "cosine": cosines,
    "dot": dots,
    "euclidean": minus_distances,
}


def pearson(left: ArrayLike, right: ArrayLike) -> float:
    """Linear correlation; 0 if one side is constant. Unlike scipy's, it is exact for spreads as small as 1e-200."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # squaring must not underflow
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Rank correlation; equal values share the mean of their ranks."""
    return pearson(rankdata(left), rankdata(right))


def mean_squared_error(left: FloatArray, right: FloatArray) -> float:
    """Mean over rows and dimensions of the squared difference; what sentence-transformers reports times 100."""
    return float(np.square(left.astype(np.float64) - right).mean())

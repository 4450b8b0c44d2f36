"""Measures over vectors: arrays in, numbers out.

Searching compares directions, not lengths, so a model without a normalization layer is not punished for its scale. How sure
a number is, is the business of `bootstrap`; what is measured on which sentences, of `sts`, `tatoeba`, `bitext`, `bias` and
`transfer`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isogloss.mining.margin import margin_scores
from isogloss.types import BoolArray, FloatArray, IntArray

BLOCK = 1024
Doubles = NDArray[np.float64]


def unit(vectors: FloatArray) -> FloatArray:
    """The same directions at length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: FloatArray = (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return scaled


def nearest(queries: FloatArray, candidates: FloatArray) -> IntArray:
    """For each query the row of its nearest candidate by cosine; the first of equals. Works block by block."""
    queries, candidates = unit(queries), unit(candidates)
    found = [(queries[start : start + BLOCK] @ candidates.T).argmax(axis=1) for start in range(0, len(queries), BLOCK)]
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, dtype=np.int64)


def nearest_by_margin(queries: FloatArray, candidates: FloatArray, k: int = 4) -> IntArray:
    """For each query the one of its k nearest candidates with the highest ratio margin; the nearer one of equals.

        margin(x, y) = cos(x, y) / ( Σ_{z ∈ NN_k(x)} cos(x, z)/2k + Σ_{z ∈ NN_k(y)} cos(y, z)/2k )

    (Artetxe & Schwenk 2019). Candidates that are near to everything lose to those that are near to this one.
    """
    return best_by_margin(unit(queries) @ unit(candidates).T, k)


def best_by_margin(similar: FloatArray, k: int = 4) -> IntArray:
    """The same from a matrix of cosines, queries down and candidates across.

    Made for test sets, whose cosines fit in memory; `isogloss.mining` has the way for millions.
    """
    if not similar.size:
        return np.zeros(len(similar), dtype=np.int64)
    k_out, k_back = min(k, similar.shape[1]), min(k, similar.shape[0])
    some = np.sort(np.argpartition(-similar, k_out - 1, axis=1)[:, :k_out], axis=1)
    near = np.take_along_axis(similar, some, axis=1)
    nearer = np.argsort(-near, axis=1, kind="stable")
    order, near = np.take_along_axis(some, nearer, axis=1), np.take_along_axis(near, nearer, axis=1)
    back = np.partition(similar, -k_back, axis=0)[-k_back:].mean(axis=0)
    best = margin_scores(near, near.mean(axis=1, keepdims=True), back[order]).argmax(axis=1)
    found: IntArray = order[np.arange(len(order)), best].astype(np.int64)
    return found


def xsim(sources: FloatArray, targets: FloatArray, k: int = 4) -> float:
    """LASER's error rate of similarity search: how often the best neighbour of row i by ratio margin is not row i."""
    return float((nearest_by_margin(sources, targets, k) != np.arange(len(sources))).mean())


def hits(found: IntArray, accepted: list[set[int]]) -> BoolArray:
    """For each query whether what was found is among the accepted answers."""
    return np.array([row in right for row, right in zip(found.tolist(), accepted, strict=True)], dtype=bool)


def cosines(left: FloatArray, right: FloatArray) -> Doubles:
    """Cosine of row i of one with row i of the other; 0 with a vector of zeros."""
    lengths = np.sqrt(_products(left, left) * _products(right, right))
    return _products(left, right) / np.where(lengths > 0, lengths, 1.0)


def dots(left: FloatArray, right: FloatArray) -> Doubles:
    """Dot product of row i of one with row i of the other."""
    return _products(left, right)


def minus_distances(left: FloatArray, right: FloatArray) -> Doubles:
    """The Euclidean distance of row i of one from row i of the other, negated so that more is more alike."""
    apart = left.astype(np.float64) - right
    return -np.sqrt(_products(apart, apart))


def _products(left: NDArray[np.floating], right: NDArray[np.floating]) -> Doubles:
    """In double precision, in which the cosine of a vector with itself is 1: pairs of the same sentence twice are ties."""
    products: Doubles = np.einsum("rd,rd->r", left, right, dtype=np.float64)
    return products


SIMILARITIES: dict[str, Callable[[FloatArray, FloatArray], Doubles]] = {
    "cosine": cosines,
    "dot": dots,
    "euclidean": minus_distances,
}


def mean_ranks(values: ArrayLike) -> Doubles:
    """Ranks from 1; values that are equal share the mean of the ranks they take up."""
    array = np.asarray(values, dtype=np.float64)
    _, group, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    result: Doubles = (last - (counts - 1) / 2)[group]
    return result


def pearson(left: ArrayLike, right: ArrayLike) -> float:
    """Linear correlation; 0 where one side does not vary, since nothing can be told from it."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # tiny spreads must not vanish when they are squared
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Correlation of ranks: whether two measures order things alike."""
    return pearson(mean_ranks(left), mean_ranks(right))


def mean_squared_error(left: FloatArray, right: FloatArray) -> float:
    """Mean over rows and dimensions of the squared difference; what sentence-transformers reports times 100."""
    return float(np.square(left.astype(np.float64) - right).mean())


def accuracy(predicted: ArrayLike, gold: ArrayLike) -> float:
    """The share of rows for which the prediction is right."""
    return float((np.asarray(predicted) == np.asarray(gold)).mean())

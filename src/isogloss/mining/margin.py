"""Margin scores: how much closer two sentences are to each other than to their other neighbors.

    margin(x, y) = f( cos(x, y),  ½ · (mean of cos(x, z) over the k nearest z of x  +  the same for y) )

    ratio     f(a, b) = a / b      the default: best in the paper
    distance  f(a, b) = a − b
    absolute  f(a, b) = a          plain cosine, which overrates sentences that are close to everything

(Artetxe & Schwenk 2019, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings", §3.) Everything is
computed from the neighbors, without reading embeddings again. `matching` turns the scores into pairs.
"""

import numpy as np

from isogloss.config.mining import Margin
from isogloss.search.neighbors import Neighbors
from isogloss.types import FloatArray, IntArray

SMALLEST_MEAN = 1e-3  # a ratio to a mean near 0, or below, is meaningless


def margin_scores(similarity: FloatArray, left_mean: FloatArray, right_mean: FloatArray, kind: Margin = "ratio") -> FloatArray:
    """Margins of pairs, from their cosines and the mean cosines of both sentences to their neighbors; shapes broadcast."""
    if kind == "absolute":
        return np.array(np.broadcast_arrays(similarity, left_mean, right_mean)[0], dtype=np.float32)
    around = (np.asarray(left_mean, dtype=np.float64) + right_mean) / 2
    score = similarity - around if kind == "distance" else similarity / np.maximum(around, SMALLEST_MEAN)
    return score.astype(np.float32)


def candidate_scores(left: Neighbors, right: Neighbors, kind: Margin = "ratio") -> tuple[FloatArray, FloatArray]:
    """The margin of every sentence with each of its neighbors, for both sides, in the shape of their ids."""
    left_mean, right_mean = left.mean, right.mean
    return (
        margin_scores(left.similarity, left_mean[:, None], right_mean[left.ids], kind),
        margin_scores(right.similarity, left_mean[right.ids], right_mean[:, None], kind),
    )


def best_by_margin(left: Neighbors, right: Neighbors) -> tuple[IntArray, IntArray]:
    """For every row of both sides, its neighbor with the highest ratio margin; the nearer one of equals."""
    scores = candidate_scores(left, right)
    ids = (side.ids[np.arange(len(side)), own.argmax(axis=1)] for side, own in zip((left, right), scores, strict=True))
    of_left, of_right = ids
    return of_left, of_right

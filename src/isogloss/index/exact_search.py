"""The exact search of indexes that are files, block by block: memory grows with a block, not with the index.

`search.neighbors` compares cosines and needs all rows at hand. Here rows may come from a stream, and are compared by the
metric of the index; products are computed in double precision, so the result does not depend on the size of blocks.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isogloss.index.vector_index import Metric
from isogloss.types import FloatArray, IntArray

BLOCK = 4096  # rows compared at once
Scores = NDArray[np.float64]


def nearest_rows(
    queries: FloatArray, blocks: Iterable[tuple[int, FloatArray]], k: int, metric: Metric
) -> tuple[IntArray, Scores]:
    """Row numbers and scores of the k nearest rows of each query, the best first; ties in order of rows.

    `blocks` are rows with the number of the first. If there are fewer than k rows, there are fewer columns.
    """
    asked = unit(queries.astype(np.float64)) if metric == "cosine" else queries.astype(np.float64)
    rows: IntArray = np.empty((len(asked), 0), dtype=np.int64)
    best: Scores = np.empty((len(asked), 0))
    for first, block in blocks:
        scores = similarity(asked, block.astype(np.float64), metric)
        numbers = np.broadcast_to(np.arange(first, first + len(block)), scores.shape)
        rows, best = _best(np.hstack([rows, numbers]), np.hstack([best, scores]), k)
    return rows, best


def similarity(queries: Scores, rows: Scores, metric: Metric) -> Scores:
    """The score of every row for every query; queries have length 1 if the metric is the cosine. NaN ranks last."""
    if metric == "l2":
        squares = (queries * queries).sum(axis=1)[:, None] + (rows * rows).sum(axis=1) - 2 * queries @ rows.T
        scores = 0 - np.sqrt(np.maximum(squares, 0))
    else:
        scores = queries @ (unit(rows) if metric == "cosine" else rows).T
    return np.where(np.isnan(scores), -np.inf, scores)


def _best(rows: IntArray, scores: Scores, k: int) -> tuple[IntArray, Scores]:
    """The k best columns of each line; of equals the earlier row, which stands further left."""
    if scores.shape[1] > 4 * k:  # everything that reaches the k-th best, then in order
        floor = np.partition(scores, -k, axis=1)[:, -k, None]
        widest = int((scores >= floor).sum(axis=1).max(initial=0))
        chosen = np.argsort(scores < floor, axis=1, kind="stable")[:, :widest]
        rows, scores = np.take_along_axis(rows, chosen, 1), np.take_along_axis(scores, chosen, 1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Vectors scaled to length 1; a zero vector stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)

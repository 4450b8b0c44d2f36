"""Measures over vectors: arrays in, numbers out.

All compare directions, not lengths, so a model without a normalisation layer is not punished for its scale.
"""

import numpy as np

from isogloss.types import BoolArray, FloatArray, IntArray

BLOCK = 1024


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


def hits(found: IntArray, accepted: list[set[int]]) -> BoolArray:
    """For each query whether what was found is among the accepted answers."""
    return np.array([row in right for row, right in zip(found.tolist(), accepted, strict=True)], dtype=bool)


def cosines(left: FloatArray, right: FloatArray) -> FloatArray:
    """Cosine of row i of one with row i of the other."""
    result: FloatArray = (unit(left) * unit(right)).sum(axis=1)
    return result

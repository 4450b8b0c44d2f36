"""The nearest rows by the definition of each metric, one pair at a time."""

import math

import numpy as np

from isogloss.types import FloatArray


def score(query: FloatArray, row: FloatArray, metric: str) -> float:
    one, other = query.astype(np.float64).tolist(), row.astype(np.float64).tolist()
    dot: float = sum(a * b for a, b in zip(one, other, strict=True))
    if metric == "dot":
        return dot
    if metric == "l2":
        return -math.dist(one, other)
    lengths = math.hypot(*one) * math.hypot(*other)
    return dot / lengths if lengths else 0.0


def best(query: FloatArray, rows: FloatArray, k: int, metric: str) -> list[tuple[int, float]]:
    """The k best rows with their scores; of equals the earlier row."""
    scored = [(number, score(query, row, metric)) for number, row in enumerate(rows)]
    return sorted(scored, key=lambda one: (-one[1], one[0]))[:k]

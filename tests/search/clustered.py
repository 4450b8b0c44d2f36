"""Vectors as sentences have them: around topics, translations near each other, each side off in a direction of its own."""

import numpy as np

from isogloss.types import FloatArray


def topical(rows: int, dimension: int = 32, topics: int = 60, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Two sides of so many rows; the first half of them are translations of each other."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(topics, dimension))
    meaning = [centers[random.integers(topics, size=rows)] + 0.4 * random.normal(size=(rows, dimension)) for _ in range(2)]
    meaning[1][: rows // 2] = meaning[0][: rows // 2]
    sides = [one + 0.5 * random.normal(size=dimension) + 0.1 * random.normal(size=one.shape) for one in meaning]
    return sides[0].astype(np.float32), sides[1].astype(np.float32)

"""Mining by definition: loops over all pairs, written from Artetxe & Schwenk (2019), for vectors few enough to afford it."""

import math
from itertools import product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from isogloss.types import FloatArray

Pairs = list[tuple[int, int, float]]


def cosine_table(left: FloatArray, right: FloatArray) -> FloatArray:
    """All cosines, in double precision, rounded once."""
    one, other = left.astype(np.float64), right.astype(np.float64)

    def inverse(rows: NDArray[np.float64]) -> list[float]:
        return [1 / math.sqrt(sum(row * row)) if any(row) else 0.0 for row in rows]

    table = [
        [float(sum(x * y)) * (a * b) for y, b in zip(other, inverse(other), strict=True)]
        for x, a in zip(one, inverse(one), strict=True)
    ]
    return np.array(table, dtype=np.float32).reshape(len(left), len(right))


def nearest_by_definition(table: FloatArray, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """For each row the columns with the greatest entries: the greatest first, of equals the first."""
    ids, values = [], []
    for row in table.tolist():
        order = sorted(range(len(row)), key=lambda column: (-row[column], column))[:k]
        ids.append(order)
        values.append([row[column] for column in order])
    return ids, values


def margin_by_definition(table: FloatArray, row: int, column: int, k: int, kind: str) -> float:
    """Equations 2 to 4 of the paper."""
    cosine = float(table[row, column])
    if kind == "absolute":
        return cosine
    of_row = sorted(map(float, table[row]), reverse=True)[:k]
    of_column = sorted(map(float, table[:, column]), reverse=True)[:k]
    around = sum(of_row) / (2 * len(of_row)) + sum(of_column) / (2 * len(of_column))
    return cosine / max(around, 1e-3) if kind == "ratio" else cosine - around


def matches_by_definition(forward: FloatArray, backward: FloatArray, strategy: str) -> Pairs:
    """Pairs from two tables of scores, left × right, as each side sees them; −∞ where a sentence is no candidate."""
    lefts, rights = forward.shape
    best_of_left = [max(range(rights), key=lambda j: (forward[i, j], -j)) for i in range(lefts)]
    best_of_right = [max(range(lefts), key=lambda i: (backward[i, j], -i)) for j in range(rights)]
    neighbors = [(i, j, float(forward[i, j])) for i, j in enumerate(best_of_left)]
    other_way = [(i, j, float(backward[i, j])) for j, i in enumerate(best_of_right)]
    if strategy == "forward":
        candidates = neighbors
    elif strategy == "backward":
        candidates = other_way
    elif strategy == "intersection":
        candidates = [(i, j, score) for i, j, score in neighbors if best_of_right[j] == i]
    elif strategy == "max":
        candidates = neighbors + other_way
    else:
        everywhere = list(product(range(lefts), range(rights)))
        candidates = [
            (i, j, float(table[i, j])) for table in (forward, backward) for i, j in everywhere if table[i, j] > -np.inf
        ]
    candidates.sort(key=lambda pair: (-pair[2], pair[0], pair[1]))
    if strategy in ("forward", "backward", "intersection"):
        return candidates
    chosen: Pairs = []
    for i, j, score in candidates:
        if all(i != taken and j != other for taken, other, _ in chosen):
            chosen.append((i, j, score))
    return chosen


@st.composite
def vectors(draw: st.DrawFn, dimension: int, max_rows: int = 40) -> FloatArray:
    """Small whole numbers, so that there are equals, opposites and vectors of nothing."""
    rows = draw(st.integers(1, max_rows))
    numbers = draw(st.lists(st.integers(-3, 3), min_size=rows * dimension, max_size=rows * dimension))
    return np.array(numbers, dtype=np.float32).reshape(rows, dimension)


@st.composite
def two_sides(draw: st.DrawFn, max_rows: int = 40) -> tuple[FloatArray, FloatArray]:
    """Vectors of two sides, of the same dimension."""
    dimension = draw(st.integers(1, 6))
    return draw(vectors(dimension, max_rows)), draw(vectors(dimension, max_rows))


def crowded(rows: int, dimension: int, seed: int) -> FloatArray:
    """Directions that share most of themselves, as sentence vectors do, of any length."""
    random = np.random.default_rng(seed)
    common = np.random.default_rng(99).normal(size=dimension)
    found: FloatArray = (common * 2 + random.normal(size=(rows, dimension))).astype(np.float32)
    return found * random.uniform(0.5, 3, size=(rows, 1)).astype(np.float32)

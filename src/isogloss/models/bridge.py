"""The bridge: the best linear map from the student's embeddings to the teacher's, in closed form.

    W, b = argmin Σ_i w_i ‖W x_i + b − y_i‖² + λ‖W‖²    x: student embedding of a sentence, y: teacher embedding of its source

It allows a teacher of another dimension, and training starts close to its target. Only sums over rows are kept (XᵀX, XᵀY,
means, per fold), so any number of sentences can be streamed; the error on held-out folds follows from the same sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.errors import DataError, ModelError
from isogloss.types import FloatArray, IntArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bridge:
    """A solved map: `vectors @ weight.T + bias`. `strength` is the chosen λ, `errors` the held-out error of each one."""

    weight: FloatArray
    bias: FloatArray
    strength: float
    errors: dict[float, float]

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Map student embeddings into the teacher's space (before normalization)."""
        return vectors @ self.weight.T + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sums over rows that ridge regression needs: Σ w [x 1]ᵀ [x 1 y] and Σ w ‖y‖²."""

    products: Matrix
    yy: float

    @classmethod
    def of(cls, x: Matrix, y: Matrix, weight: Matrix) -> "Sums":
        """The sums over these rows."""
        left = np.column_stack([x, np.ones(len(x))])
        return cls((left * weight[:, None]).T @ np.column_stack([left, y]), float(weight @ (y * y).sum(1)))

    def plus(self, other: "Sums", sign: int = 1) -> "Sums":
        """The rows of both; with sign −1, the rows of `self` that are not in `other`."""
        return Sums(self.products + sign * other.products, self.yy + sign * other.yy)

    @property
    def count(self) -> float:
        """The weight of all rows."""
        width = len(self.products) - 1
        return float(self.products[width, width])

    def solve(self, strength: float) -> Matrix:
        """The map [W b] (height × width + 1); the strength is relative to the mean variance of x."""
        width = len(self.products) - 1
        centered = self.products[:width] - np.outer(self.products[width, :width], self.products[width]) / self.count
        xx, xy = centered[:, :width], centered[:, width + 1 :]
        ridge = strength * max(np.trace(xx) / width, np.finfo(np.float64).tiny)
        try:
            weight = np.linalg.solve(xx + ridge * np.eye(width), xy).T
        except np.linalg.LinAlgError:  # all rows are the same vector
            weight = np.full((xy.shape[1], width), np.nan)
        ones, x, y = self.count, self.products[width, :width], self.products[width, width + 1 :]
        return np.column_stack([weight, (y - weight @ x) / ones])

    def squared_error(self, solved: Matrix) -> float:
        """Σ w ‖W x + b − y‖² over the rows, from the sums."""
        squares, crossed = np.split(self.products, [len(self.products)], axis=1)
        return float(((solved @ squares) * solved).sum() - 2 * (solved * crossed.T).sum() + self.yy)


class BridgeSolver:
    """Solves the bridge from a stream of rows. Rows of the same group stay in the same fold."""

    def __init__(self, width: int, height: int, folds: int = 5) -> None:
        self.folds = [Sums(np.zeros((width + 1, width + 1 + height)), 0.0) for _ in range(folds)]

    def add(self, student: FloatArray, teacher: FloatArray, groups: IntArray, weight: FloatArray | None = None) -> None:
        """Add a batch: row i of `student` maps to row i of `teacher` and counts `weight[i]` times.

        `groups` are source-sentence numbers: if translations of one were in several folds, λ would be chosen on seen text.
        """
        if len(student) != len(teacher) or len(student) != len(groups):
            raise DataError(
                f"bridge: {amount(len(student), 'student row')}, {amount(len(teacher), 'teacher row')}",
                hint="they must be paired",
            )
        weights = np.ones(len(student)) if weight is None else weight.astype(np.float64)
        for fold in np.unique(groups % len(self.folds)):
            rows = groups % len(self.folds) == fold
            x, y = student[rows].astype(np.float64), teacher[rows].astype(np.float64)
            self.folds[fold] = self.folds[fold].plus(Sums.of(x, y, weights[rows]))

    def solve(self, strengths: Sequence[float]) -> Bridge:
        """Choose λ by the error on held-out folds, then solve on all rows."""
        total = reduce(Sums.plus, self.folds)
        used = [fold for fold in self.folds if fold.count > 0]
        if len(used) < 2:
            raise DataError("the bridge needs at least two source sentences to choose its strength", hint="add training pairs")
        errors = {
            strength: sum(fold.squared_error(total.plus(fold, -1).solve(strength)) for fold in used) / total.count
            for strength in strengths
        }
        best = min(errors, key=lambda strength: errors[strength])
        solved = total.solve(best).astype(np.float32)
        if not np.isfinite(solved).all():
            raise ModelError(
                "the bridge cannot be solved: the student gives every sentence the same embedding",
                hint="is student.max_tokens very small, or the student untrained?",
            )
        return Bridge(np.ascontiguousarray(solved[:, :-1]), solved[:, -1].copy(), best, errors)

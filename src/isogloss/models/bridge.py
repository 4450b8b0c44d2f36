"""The bridge: the best linear map from the student's embeddings to the teacher's, in closed form.

    W, b = argmin Σ_i w_i ‖W x_i + b − y_i‖² + λ‖W‖²    x: student embedding of a sentence, y: teacher embedding of its source

It allows a teacher of another dimension, and is a warm start that saves many epochs. Only sums over rows are kept (XᵀX, XᵀY and
the means, per fold), so any number of sentences can be streamed; the error on held-out folds follows from the same sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(slots=True)
class Sums:
    """The sums over rows that ridge regression needs."""

    count: float
    x: Matrix
    y: Matrix
    xx: Matrix
    xy: Matrix
    yy: float

    @classmethod
    def zeros(cls, width: int, height: int) -> "Sums":
        """No rows yet."""
        return cls(0.0, np.zeros(width), np.zeros(height), np.zeros((width, width)), np.zeros((width, height)), 0.0)

    def add(self, x: Matrix, y: Matrix, weight: Matrix) -> None:
        """Add rows with their weights."""
        weighted = x * weight[:, None]
        self.count += float(weight.sum())
        self.x += weighted.sum(0)
        self.y += weight @ y
        self.xx += weighted.T @ x
        self.xy += weighted.T @ y
        self.yy += float(weight @ (y * y).sum(1))

    def __sub__(self, other: "Sums") -> "Sums":
        """The rows of `self` that are not in `other`."""
        return Sums(*(getattr(self, name) - getattr(other, name) for name in ("count", "x", "y", "xx", "xy", "yy")))

    def __add__(self, other: "Sums") -> "Sums":
        """The rows of both."""
        return Sums(*(getattr(self, name) + getattr(other, name) for name in ("count", "x", "y", "xx", "xy", "yy")))

    def solve(self, strength: float) -> tuple[Matrix, Matrix]:
        """Weight (height × width) and bias; the strength is relative to the mean variance of x."""
        centered_xx = self.xx - np.outer(self.x, self.x) / self.count
        centered_xy = self.xy - np.outer(self.x, self.y) / self.count
        width = len(self.x)
        ridge = strength * max(np.trace(centered_xx) / width, np.finfo(np.float64).tiny)
        try:
            weight = np.linalg.solve(centered_xx + ridge * np.eye(width), centered_xy).T
        except np.linalg.LinAlgError:  # all rows are the same vector
            weight = np.full((len(self.y), width), np.nan)
        return weight, (self.y - weight @ self.x) / self.count

    def squared_error(self, weight: Matrix, bias: Matrix) -> float:
        """Σ‖W x + b − y‖² over the rows, from the sums."""
        predicted = ((weight @ self.xx) * weight).sum() + 2 * bias @ weight @ self.x + self.count * bias @ bias
        crossed = (weight * self.xy.T).sum() + bias @ self.y
        return float(predicted - 2 * crossed + self.yy)


class BridgeSolver:
    """Solves the bridge from a stream of rows. Rows of the same group stay in the same fold."""

    def __init__(self, width: int, height: int, folds: int = 5) -> None:
        self.folds = [Sums.zeros(width, height) for _ in range(folds)]

    def add(self, student: FloatArray, teacher: FloatArray, groups: IntArray, weight: FloatArray | None = None) -> None:
        """Add a batch: row i of `student` maps to row i of `teacher` and counts `weight[i]` times.

        `groups` are source-sentence numbers: translations of one sentence must be in one fold, or λ would be chosen on text
        that was seen.
        """
        if len(student) != len(teacher) or len(student) != len(groups):
            raise DataError(
                f"bridge: {amount(len(student), 'student row')}, {amount(len(teacher), 'teacher row')}",
                hint="they must be paired",
            )
        weights = np.ones(len(student)) if weight is None else weight.astype(np.float64)
        fold_of = groups % len(self.folds)
        for fold, sums in enumerate(self.folds):
            rows = fold_of == fold
            if rows.any():
                sums.add(student[rows].astype(np.float64), teacher[rows].astype(np.float64), weights[rows])

    def solve(self, strengths: Sequence[float]) -> Bridge:
        """Choose λ by the error on held-out folds, then solve on all rows."""
        total = self.folds[0]
        for sums in self.folds[1:]:
            total = total + sums
        if sum(fold.count > 0 for fold in self.folds) < 2:
            raise DataError("the bridge needs at least two source sentences to choose its strength", hint="add training pairs")
        errors = {strength: self._left_out_error(total, strength) for strength in strengths}
        best = min(errors, key=lambda strength: errors[strength])
        weight, bias = total.solve(best)
        if not np.isfinite(weight).all():
            raise ModelError(
                "the bridge cannot be solved: the student gives every sentence the same embedding",
                hint="is student.max_tokens very small, or the student untrained?",
            )
        return Bridge(weight.astype(np.float32), bias.astype(np.float32), best, errors)

    def _left_out_error(self, total: Sums, strength: float) -> float:
        used = [fold for fold in self.folds if 0 < fold.count < total.count]
        error = sum(fold.squared_error(*(total - fold).solve(strength)) for fold in used)
        return error / max(sum(fold.count for fold in used), 1.0)

"""The bridge: the best linear map from the student's vectors to the teacher's, solved and not trained.

    W, b = argmin Σ_i w_i ‖W x_i + b − y_i‖² + λ‖W‖²        x: student vector of a sentence, y: teacher vector of its source

It answers a teacher of another dimension, and it is a warm start worth more than many epochs: the body starts training
with its vectors already turned towards their targets. Only sums over rows are kept (XᵀX, XᵀY and the means, per fold),
so any number of sentences can be streamed through, and the error on held-out folds follows from the same sums.
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
    """A solved map: `vectors @ weight.T + bias`. `strength` is the λ that was chosen, `errors` what each one gave."""

    weight: FloatArray
    bias: FloatArray
    strength: float
    errors: dict[float, float]

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Map student vectors into the teacher's space (before normalization)."""
        return vectors @ self.weight.T + self.bias


@dataclass(slots=True)
class Sums:
    """Everything ridge regression needs to know of some rows."""

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
        """Take in more rows; `count` and the sums see a row as often as its weight says."""
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
        """Weight (height × width) and bias; the strength is relative to the mean variance of x, so it has no unit."""
        centred_xx = self.xx - np.outer(self.x, self.x) / self.count
        centred_xy = self.xy - np.outer(self.x, self.y) / self.count
        width = len(self.x)
        ridge = strength * max(np.trace(centred_xx) / width, np.finfo(np.float64).tiny)
        try:
            weight = np.linalg.solve(centred_xx + ridge * np.eye(width), centred_xy).T
        except np.linalg.LinAlgError:  # all rows are one vector: there is nothing to map
            weight = np.full((len(self.y), width), np.nan)
        return weight, (self.y - weight @ self.x) / self.count

    def squared_error(self, weight: Matrix, bias: Matrix) -> float:
        """Σ‖W x + b − y‖² over the rows, from the sums alone."""
        predicted = ((weight @ self.xx) * weight).sum() + 2 * bias @ weight @ self.x + self.count * bias @ bias
        crossed = (weight * self.xy.T).sum() + bias @ self.y
        return float(predicted - 2 * crossed + self.yy)


class BridgeSolver:
    """Streams rows in, gives the bridge out. Rows of the same group stay in the same fold."""

    def __init__(self, width: int, height: int, folds: int = 5) -> None:
        self.folds = [Sums.zeros(width, height) for _ in range(folds)]

    def add(self, student: FloatArray, teacher: FloatArray, groups: IntArray, weight: FloatArray | None = None) -> None:
        """Take in a batch: row i of `student` should land on row i of `teacher`, and counts `weight[i]` times.

        `groups` are source-sentence numbers: translations of a sentence must not be on both sides of a fold, or the
        choice of λ would be made on text that was seen.
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
        """Choose λ by the error on left-out folds, then solve over all rows."""
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
                "the bridge cannot be solved: the student gives every sentence the same vector",
                hint="is student.max_tokens very small, or the student untrained?",
            )
        return Bridge(weight.astype(np.float32), bias.astype(np.float32), best, errors)

    def _left_out_error(self, total: Sums, strength: float) -> float:
        used = [fold for fold in self.folds if 0 < fold.count < total.count]
        error = sum(fold.squared_error(*(total - fold).solve(strength)) for fold in used)
        return error / max(sum(fold.count for fold in used), 1.0)

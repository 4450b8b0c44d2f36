"""Classification transfer: a probe is taught in English, and asked in other languages it saw no label of.

The probe is multinomial logistic regression with an L2 penalty on frozen vectors, solved to its one optimum, so that what
differs between models is their vectors:

    min_W,b   1/n · Σ_i −log softmax(W x_i + b)[y_i]  +  λ/2 · ‖W‖²

A row of two sentences becomes (u, v, |u − v|, u ∗ v), as in InferSent and LASER's XNLI. Each number is standardized by its mean
and deviation over the English rows; λ is chosen on English too, by three folds. No row of another language has a say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import share
from isogloss.evaluation.data.test_sets import Labelled
from isogloss.evaluation.metrics import Doubles, accuracy
from isogloss.evaluation.results import Measured
from isogloss.evaluation.space import Space
from isogloss.types import FloatArray, IntArray

PENALTIES = (1.0, 0.1, 0.01, 0.001)
FOLDS = 3
ITERATIONS = 200
MEASURE = "accuracy"


class Probe:
    """A linear classifier on vectors."""

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty
        self.weights = np.zeros((0, 0))
        self._mean, self._scale = np.zeros(0), np.ones(0)

    def fit(self, features: FloatArray, classes: IntArray, count: int) -> "Probe":
        """Find the optimum for rows of `features` with these classes, of which there are `count`."""
        rows = features.astype(np.float64)
        self._mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        self._scale = np.where(deviation > 0, deviation, 1.0)
        rows = self._standardized(rows)
        wanted = np.eye(count)[classes]

        def loss(flat: Doubles) -> tuple[float, Doubles]:
            weights = flat.reshape(-1, count)
            chances, cost = _softmax(rows @ weights, wanted)
            gradient = rows.T @ (chances - wanted) / len(rows)
            gradient[:-1] += self.penalty * weights[:-1]
            return cost + self.penalty / 2 * float(np.square(weights[:-1]).sum()), gradient.ravel()

        options = {"maxiter": ITERATIONS, "ftol": 1e-9, "gtol": 1e-5}
        solved = minimize(loss, np.zeros(rows.shape[1] * count), jac=True, method="L-BFGS-B", options=options)
        self.weights = solved.x.reshape(-1, count)
        return self

    def predict(self, features: FloatArray) -> IntArray:
        """The likeliest class of each row."""
        scores = self._standardized(features.astype(np.float64)) @ self.weights
        found: IntArray = np.argmax(scores, axis=1).astype(np.int64)
        return found

    def _standardized(self, rows: Doubles) -> Doubles:
        """Rows at mean 0 and deviation 1, and a column of ones for b."""
        return np.column_stack([(rows - self._mean) / self._scale, np.ones(len(rows))])


def _softmax(scores: Doubles, wanted: Doubles) -> tuple[Doubles, float]:
    """Probabilities, and the mean of −log of the wanted ones."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    log_chances = shifted - total
    return np.exp(log_chances), float(-(log_chances * wanted).sum() / len(scores))


def best_penalty(features: FloatArray, classes: IntArray, count: int, penalties: Sequence[float] = PENALTIES) -> float:
    """The penalty with the highest accuracy on left-out thirds; the strongest of equals.

    Thirds are cut from the file as it is, not shuffled: rows that share a sentence stand together and stay together.
    """
    fold = np.arange(len(features)) * FOLDS // len(features)

    def right(penalty: float) -> float:
        scores = []
        for one in range(FOLDS):
            left_out = fold == one
            probe = Probe(penalty).fit(features[~left_out], classes[~left_out], count)
            scores.append(accuracy(probe.predict(features[left_out]), classes[left_out]))
        return float(np.mean(scores))

    return max(sorted(penalties, reverse=True), key=right)


def features_of(rows: Labelled, space: Space) -> FloatArray:
    """What the probe sees: a sentence's vector, or what two of them have in common and not."""
    sides = [space.of(texts, rows.language) for texts in rows.texts]
    if len(sides) == 1:
        return sides[0]
    left, right = sides
    return np.concatenate([left, right, np.abs(left - right), left * right], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """One classification set in several languages."""

    table: str
    taught: Labelled
    asked: tuple[Labelled, ...]

    def texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """All rows, of the language that teaches and of those that are asked."""
        for rows in (self.taught, *self.asked):
            for texts in rows.texts:
                yield rows.language, texts

    def measure(self, space: Space) -> list[Measured]:
        """The accuracy of the English probe in each language."""
        names = sorted(set(self.taught.labels))
        number = {name: place for place, name in enumerate(names)}
        features, classes = features_of(self.taught, space), _numbered(self.taught, number)
        probe = Probe(best_penalty(features, classes, len(names))).fit(features, classes, len(names))
        return [self._one(rows, space, probe, number) for rows in self.asked]

    def _one(self, rows: Labelled, space: Space, probe: Probe, number: dict[str, int]) -> Measured:
        hits: NDArray[np.bool_] = probe.predict(features_of(rows, space)) == _numbered(rows, number)
        unit = f"{rows.set} {rows.split}"  # the same rows in every language
        return Measured(self.table, rows.language, MEASURE, share(hits, unit), {"penalty": probe.penalty}, rows.origin)


def _numbered(rows: Labelled, number: dict[str, int]) -> IntArray:
    for row, label in enumerate(rows.labels, 1):
        if label not in number:
            raise DataError(
                f"{rows.set} {rows.language} {rows.split}, row {row}: the class {label!r} is not among those taught",
                hint=f"taught were {', '.join(number)}",
            )
    return np.array([number[label] for label in rows.labels], dtype=np.int64)

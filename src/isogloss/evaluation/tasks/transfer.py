"""Zero-shot classification transfer: a probe is trained in English and tested in other languages.

The probe is multinomial logistic regression with an L2 penalty on frozen embeddings (scikit-learn), so models differ in their
embeddings only:

    min_W,b   1/n · Σ_i −log softmax(W x_i + b)[y_i]  +  λ/2 · ‖W‖²

A row of two sentences becomes (u, v, |u − v|, u ∗ v), as in InferSent and LASER's XNLI. Features are standardized over the
English rows, and λ is chosen on them by 3-fold cross-validation. No row of another language is used in training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import share
from isogloss.evaluation.compare import Measured
from isogloss.evaluation.data.test_sets import Labelled
from isogloss.evaluation.space import Space
from isogloss.types import FloatArray

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

PENALTIES = (1.0, 0.1, 0.01, 0.001)
FOLDS = 3
MEASURE = "accuracy"


def fit_probe(features: FloatArray, labels: "Sequence[str] | NDArray[np.str_]", penalty: float) -> "Pipeline":
    """Standardize features and fit the classifier."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # scikit-learn has one vector w for two classes, where the formula has ±w/2: half the penalty.
    strength = (2 if len(set(labels)) == 2 else 1) / (penalty * len(features))
    probe: Pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=strength, tol=1e-5, max_iter=5000))
    return probe.fit(features.astype(np.float64), np.asarray(labels))


def best_penalty(features: FloatArray, labels: Sequence[str], penalties: Sequence[float] = PENALTIES) -> float:
    """The penalty with the highest accuracy in cross-validation; the strongest of equals.

    Folds are consecutive thirds of the file, not shuffled: rows that share a sentence are next to each other.
    """
    from sklearn.model_selection import KFold

    classes = np.asarray(labels)

    def score(penalty: float) -> float:
        return sum(
            float(fit_probe(features[rest], classes[rest], penalty).score(features[held_out], classes[held_out])) / FOLDS
            for rest, held_out in KFold(FOLDS).split(features)
        )

    return max(sorted(penalties, reverse=True), key=score)


def features_of(rows: Labelled, space: Space) -> FloatArray:
    """The embedding of a sentence; for pairs both, their absolute difference and their product."""
    sides = space.columns(rows)
    if len(sides) == 1:
        return sides[0]
    left, right = sides
    return np.concatenate([left, right, np.abs(left - right), left * right], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """One classification set in several languages."""

    table: str
    train: Labelled
    test: tuple[Labelled, ...]

    @property
    def sets(self) -> tuple[Labelled, ...]:
        """The training set and the test sets."""
        return (self.train, *self.test)

    def measure(self, space: Space) -> list[Measured]:
        """The accuracy of the English probe in each language."""
        features = features_of(self.train, space)
        penalty = best_penalty(features, self.train.labels)
        probe = fit_probe(features, self.train.labels, penalty)
        return [self._language(rows, space, probe, penalty) for rows in self.test]

    def _language(self, rows: Labelled, space: Space, probe: "Pipeline", penalty: float) -> Measured:
        for number, label in enumerate(rows.labels, 1):
            if label not in probe.classes_:
                raise DataError(
                    f"{rows.set} {rows.subset} {rows.split}, row {number}: the class {label!r} is not in the training rows",
                    hint=f"the training rows have {', '.join(probe.classes_)}",
                )
        hits = probe.predict(features_of(rows, space)) == np.asarray(rows.labels)
        unit = f"{rows.set} {rows.split}"  # the same rows in every language
        return Measured(self.table, rows.subset, MEASURE, share(hits, unit), {"penalty": penalty}, rows.origin)

"""Zero-shot classification transfer: a probe is trained in English and tested in other languages.

The probe is multinomial logistic regression with an L2 penalty on frozen embeddings (scikit-learn), so models differ in their
embeddings only:

    min_W,b   1/n · Σ_i −log softmax(W x_i + b)[y_i]  +  λ/2 · ‖W‖²

A row of two sentences becomes (u, v, |u − v|, u ∗ v), as in InferSent and LASER's XNLI. Features are standardized over the
English rows, and λ is chosen on them by 3-fold cross-validation. No row of another language is used in training.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import share
from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.data.test_sets import Labelled
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.task import Task
from isogloss.types import BoolArray, FloatArray

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


def transfer(table: str, train: Labelled, test: Sequence[Labelled]) -> Task:
    """The accuracy in each language of a probe that is trained on `train`."""

    def measure(space: Space) -> list[TaskScore]:
        features = features_of(train, space)
        penalty = best_penalty(features, train.labels)
        probe = fit_probe(features, train.labels, penalty)
        found = []
        for rows in test:
            unit = f"{rows.set} {rows.split}"  # the same rows in every language
            sample = share(_hits(rows, space, probe), unit)
            found.append(TaskScore(table, rows.subset, MEASURE, sample, {"penalty": penalty}, rows.origin))
        return found

    return Task((train, *test), measure)


def _hits(rows: Labelled, space: Space, probe: "Pipeline") -> BoolArray:
    """Which rows the probe classifies correctly."""
    for number, label in enumerate(rows.labels, 1):
        if label not in probe.classes_:
            raise DataError(
                f"{rows.set} {rows.subset} {rows.split}, row {number}: the class {label!r} is not in the training rows",
                hint=f"the training rows have {', '.join(probe.classes_)}",
            )
    return np.asarray(probe.predict(features_of(rows, space)) == np.asarray(rows.labels), dtype=np.bool_)

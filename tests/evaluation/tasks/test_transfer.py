"""The probe against its optimum, and transfer between languages whose vectors are alike, or are not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from isogloss.errors import DataError
from isogloss.evaluation.data.test_sets import Labelled
from isogloss.evaluation.leak_report import SetFile
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.transfer import best_penalty, features_of, fit_probe, transfer
from isogloss.types import FloatArray, IntArray


def clusters(rows: int, seed: int, width: int = 5, noise: float = 1.0) -> tuple[FloatArray, IntArray]:
    generator = np.random.default_rng(seed)
    classes = np.arange(rows) % 3
    centres = np.random.default_rng(99).normal(size=(3, width)) * 2
    return (centres[classes] + noise * generator.normal(size=(rows, width))).astype(np.float32), classes.astype(np.int64)


@pytest.mark.parametrize("penalty", [1.0, 0.01])
@pytest.mark.parametrize("count", [2, 3])
def test_the_probe_is_at_the_optimum_of_the_formula(penalty: float, count: int) -> None:
    """There the gradient is 0: (softmax − onehot)ᵀ x / n + λ W."""
    features, classes = clusters(90, 1)
    classes = np.minimum(classes, count - 1)
    scaler, model = (step for _, step in fit_probe(features, [str(one) for one in classes], penalty).steps)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    assert np.allclose(scaler.transform(features), scaled, atol=1e-5)
    weights, bias = model.coef_, model.intercept_
    if count == 2:  # scikit-learn's one vector as two
        weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    scores = scaled @ weights.T + bias
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    residual = chances - np.eye(count)[classes]
    assert np.abs(residual.T @ scaled / len(scaled) + penalty * weights).max() < 1e-4
    assert np.abs(residual.mean(axis=0)).max() < 1e-4, "the bias has no penalty"


def test_the_penalty_is_chosen_on_left_out_rows() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(60, 40)).astype(np.float32)
    labels = [str(number % 2) for number in range(60)]
    noise[:, 0] = np.arange(60) % 2 + 0.7 * generator.normal(size=60)
    chosen = best_penalty(noise, labels, (1.0, 1e-6))
    scores = {}
    for penalty in (1.0, 1e-6):
        right = 0.0
        for fold in range(3):
            out = np.arange(60) // 20 == fold
            judge = LogisticRegression(C=2 / (penalty * 40), max_iter=5000)
            mean, deviation = noise[~out].mean(axis=0), noise[~out].std(axis=0)
            judge.fit((noise[~out] - mean) / deviation, np.array(labels)[~out])
            right += judge.score((noise[out] - mean) / deviation, np.array(labels)[out])
        scores[penalty] = right
    assert scores[1.0] != scores[1e-6] and chosen == max(scores, key=lambda one: scores[one])


def rows(language: str, split: str, count: int, labels: list[str], sides: int = 1) -> Labelled:
    texts = tuple([f"{language} {split} {side} {n}" for n in range(count)] for side in range(sides))
    origin = (SetFile(f"sib/{language}"),)
    return Labelled("sib", language, (language,) * sides, texts, origin, split=split, labels=labels)


def test_transfer_works_where_spaces_are_aligned() -> None:
    (english, classes), (german, _), (swahili, _) = clusters(90, 1), clusters(60, 2), clusters(60, 3)
    labels = [f"class {number}" for number in classes]
    taught = rows("en", "train", 90, labels)
    asked = (rows("de", "test", 60, labels[:60]), rows("sw", "test", 60, labels[:60]))
    task = transfer("SIB", taught, asked)
    texts = [text for part in task.sets for text in part.texts[0]]
    space = Space({text: row for row, text in enumerate(texts)}, np.concatenate([english, german, -swahili]))
    aligned, mirrored = task.measure(space)
    assert aligned.sample.value() > 0.8 > 0.4 > mirrored.sample.value()
    assert aligned.column == "de" and aligned.origin == (SetFile("sib/de"),) and len(aligned.sample) == 60
    odd = transfer("SIB", taught, (rows("de", "test", 60, ["another", *labels[1:60]]),))
    with pytest.raises(DataError, match="row 1: the class 'another' is not in the training rows"):
        odd.measure(space)


def test_features_of_pairs() -> None:
    both = rows("en", "dev", 1, ["x"], sides=2)
    space = Space({both.texts[0][0]: 0, both.texts[1][0]: 1}, np.array([[1, 2], [3, -1]], dtype=np.float32))
    assert features_of(both, space).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]

"""The probe against its optimum, and transfer between languages whose vectors are alike, or are not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from isogloss.errors import DataError
from isogloss.evaluation.data.test_sets import Labelled
from isogloss.evaluation.leak_report import Origin
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.transfer import Probe, Transfer, best_penalty, features_of
from isogloss.types import FloatArray, IntArray


def clusters(rows: int, seed: int, width: int = 5, noise: float = 1.0) -> tuple[FloatArray, IntArray]:
    generator = np.random.default_rng(seed)
    classes = np.arange(rows) % 3
    centres = np.random.default_rng(99).normal(size=(3, width)) * 2
    return (centres[classes] + noise * generator.normal(size=(rows, width))).astype(np.float32), classes.astype(np.int64)


@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_the_probe_is_at_scikit_learns_optimum(penalty: float) -> None:
    features, classes = clusters(90, 1)
    probe = Probe(penalty).fit(features, classes, 3)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    judge = LogisticRegression(C=1 / (penalty * len(features)), tol=1e-9, max_iter=5000).fit(scaled, classes)
    ours = probe.weights[:-1] - probe.weights[:-1].mean(axis=1, keepdims=True)  # softmax knows weights up to a shift
    theirs = judge.coef_.T - judge.coef_.T.mean(axis=1, keepdims=True)
    assert np.allclose(ours, theirs, atol=2e-3)
    fresh, _ = clusters(60, 2)
    assert (probe.predict(fresh) == judge.predict((fresh - features.mean(axis=0)) / features.std(axis=0))).all()
    assert np.array_equal(probe.weights, Probe(penalty).fit(features, classes, 3).weights), "the same every time"


def test_the_penalty_is_chosen_on_left_out_rows() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(60, 40)).astype(np.float32)
    classes = (np.arange(60) % 2).astype(np.int64)
    noise[:, 0] = classes + 0.7 * generator.normal(size=60)
    chosen = best_penalty(noise, classes, 2, (1.0, 1e-6))
    scores = {}
    for penalty in (1.0, 1e-6):
        right = 0.0
        for fold in range(3):
            out = np.arange(60) // 20 == fold
            judge = LogisticRegression(C=1 / (penalty * 40), max_iter=5000)
            mean, deviation = noise[~out].mean(axis=0), noise[~out].std(axis=0)
            judge.fit((noise[~out] - mean) / deviation, classes[~out])
            right += judge.score((noise[out] - mean) / deviation, classes[out])
        scores[penalty] = right
    assert scores[1.0] != scores[1e-6] and chosen == max(scores, key=lambda one: scores[one])


def rows(language: str, split: str, count: int, labels: list[str], sides: int = 1) -> Labelled:
    texts = tuple([f"{language} {split} {side} {n}" for n in range(count)] for side in range(sides))
    return Labelled("sib", language, split, texts, labels, (Origin(f"sib/{language}"),))


def test_transfer_works_where_spaces_are_aligned() -> None:
    (english, classes), (german, _), (swahili, _) = clusters(90, 1), clusters(60, 2), clusters(60, 3)
    labels = [f"class {number}" for number in classes]
    taught = rows("en", "train", 90, labels)
    asked = (rows("de", "test", 60, labels[:60]), rows("sw", "test", 60, labels[:60]))
    task = Transfer("SIB", taught, asked)
    texts = [text for _, some in task.texts() for text in some]
    space = Space({text: row for row, text in enumerate(texts)}, np.concatenate([english, german, -swahili]))
    aligned, mirrored = task.measure(space)
    assert aligned.sample.value() > 0.8 > 0.4 > mirrored.sample.value()
    assert aligned.column == "de" and aligned.origin == (Origin("sib/de"),) and len(aligned.sample) == 60
    odd = Transfer("SIB", taught, (rows("de", "test", 60, ["another", *labels[1:60]]),))
    with pytest.raises(DataError, match="row 1: the class 'another' is not among those taught"):
        odd.measure(space)


def test_features_of_pairs() -> None:
    both = rows("en", "dev", 1, ["x"], sides=2)
    space = Space({both.texts[0][0]: 0, both.texts[1][0]: 1}, np.array([[1, 2], [3, -1]], dtype=np.float32))
    assert features_of(both, space).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]

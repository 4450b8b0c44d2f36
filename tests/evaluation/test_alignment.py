"""The three questions, on vectors whose answers are known, and on real tiny models against plain loops."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.alignment import AlignmentEvaluator, evaluate
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import OnProgress, silent
from isogloss.types import Bitext, FloatArray, Pair
from tiny import PAIRS, KnownVectors

SMALL = Bitext.of(
    [
        Pair("one", "eins", "de", "", "test"),
        Pair("two", "zwei", "de", "", "test"),
        Pair("three", "drei", "de", "", "train"),
        Pair("alone", "alone", "en", "", "train"),
    ]
)


def test_known_answers() -> None:
    teacher = KnownVectors({"one": (1, 0), "two": (0, 1), "three": (1, 1)})
    student = KnownVectors(
        {"one": (0, 1), "two": (1, 0), "three": (-1, 0), "eins": (1, 0.1), "zwei": (0.1, 2), "drei": (-1, -1)}
    )
    (german,) = evaluate(student, teacher, SMALL).scores
    assert german.teacher_index == 1.0, "both queries find their sentence in the teacher's index"
    assert german.to_source == 0.0, "and neither in the student's own, which is mirrored"
    assert german.from_source == 0.0
    assert german.cosine == pytest.approx((1 / np.sqrt(1.01) + 2 / np.sqrt(4.01)) / 2, rel=1e-5)
    assert german.mse == pytest.approx((0.1**2 + 0.1**2 + 1) / 4), "mean over two pairs of two numbers"


def test_source_text_without_translation_is_not_a_candidate() -> None:
    questions = AlignmentEvaluator(SMALL)
    assert questions.sources == ["one", "two", "three"]
    assert "alone" not in questions.texts


def test_two_sources_of_one_translation_are_both_right() -> None:
    bitext = Bitext.of(
        [
            Pair("sofa", "Couch", "de", "", "test"),
            Pair("couch", "Couch", "de", "", "test"),
            Pair("tea", "Tee", "de", "", "test"),
        ]
    )
    vectors = KnownVectors({"sofa": (1, 0), "couch": (0.9, 0.1), "tea": (0, 1), "Couch": (0.9, 0.1), "Tee": (0, 1)})
    report = evaluate(vectors, vectors, bitext)
    assert report.scores[0].to_source == report.scores[0].from_source == report.scores[0].teacher_index == 1.0


def test_real_models_against_loops(models: Path, bitext: Bitext) -> None:
    teacher, student = load(str(models / "teacher")), Student.from_pretrained(str(models / "teacher"))
    report = evaluate(student, teacher, bitext)
    english = bitext.sources()
    index = teacher.encode(english)
    for score in report.scores:
        held = bitext.where(split="test", language=score.language)
        right = 0
        for pair in held:
            query = student.encode([pair.target])[0]
            right += english[int(np.argmax([float(query @ row) for row in index]))] == pair.source
        assert score.teacher_index == pytest.approx(right / len(held))
        assert score.queries == 8
    assert report.candidates == 40


def test_a_student_of_another_dimension_is_measured_without_the_teacher(models: Path, bitext: Bitext) -> None:
    report = evaluate(Student.from_pretrained(str(models / "student")), load(str(models / "teacher")), bitext)
    assert report.average().teacher_index is None and report.average().cosine is None and report.average().mse is None
    assert 0 <= report.average().to_source <= 1


def test_candidates_are_limited_but_never_miss_the_answer(bitext: Bitext) -> None:
    questions = AlignmentEvaluator(bitext, max_candidates=3)
    assert set(questions.sources) == set(bitext.where(split="test").sources())


def test_nothing_held_out() -> None:
    with pytest.raises(DataError, match="no held-out pairs"):
        AlignmentEvaluator(Bitext.of(pair for pair in PAIRS if pair.split == "train"))


class Perfect:
    """An encoder that knows every translation."""

    name, dimension, fingerprint = "perfect", 40, "perfect"

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "") -> FloatArray:
        place = {pair.source: row for row, pair in enumerate(PAIRS[::2])}
        place |= {pair.target: place[pair.source] for pair in PAIRS}
        return np.eye(40, dtype=np.float32)[[place[text] for text in texts]]


def test_a_perfect_model_scores_one(bitext: Bitext) -> None:
    average = evaluate(Perfect(), Perfect(), bitext).average()
    assert (average.teacher_index, average.to_source, average.from_source, average.cosine) == (1.0, 1.0, 1.0, 1.0)


def test_intervals_resample_source_sentences_and_hold_the_scores(models: Path, bitext: Bitext) -> None:
    evaluator = AlignmentEvaluator(bitext)
    student = Student.from_pretrained(str(models / "teacher"), device="cpu")
    evaluator.set_teacher(load(str(models / "teacher")))
    results = evaluator.score(student.encode(evaluator.texts))
    found, report = evaluator.intervals(results), evaluator.report("m", results)
    assert set(found) == {"de", "ru", "average"} and set(found["de"]) >= {"to_source", "from_source"}
    for scores in (*report.scores, report.average()):
        for name, (low, high) in found[scores.language].items():
            assert low <= getattr(scores, name) <= high, (scores.language, name)
    assert found["de"]["cosine"].low < found["de"]["cosine"].high
    spans = [high - low for low, high in (found[language]["cosine"] for language in ("de", "ru", "average"))]
    assert spans[2] <= max(spans[:2]) + 1e-9


def test_the_share_of_neighbors_in_the_own_language() -> None:
    """Ten nearest among 2 × 8 sentences: languages far apart fill them with their own 7 first; together, half are."""
    pairs = Bitext.of([Pair(f"s{row}", f"t{row}", "de", "", "test") for row in range(8)])
    evaluator = AlignmentEvaluator(pairs)
    angles = {f"{side}{row}": row * 0.1 + (2.0 if side == "t" else 0.0) for row in range(8) for side in "st"}
    apart = np.array([[np.cos(angles[text]), np.sin(angles[text])] for text in evaluator.texts], dtype=np.float32)
    assert evaluator.own_language_share(apart) == {"de": pytest.approx(0.7)}
    mixed = {f"{side}{row}": row * 0.1 + (0.05 if side == "t" else 0.0) for row in range(8) for side in "st"}
    vectors = np.array([[np.cos(mixed[text]), np.sin(mixed[text])] for text in evaluator.texts], dtype=np.float32)
    assert evaluator.own_language_share(vectors)["de"] == pytest.approx(0.4625, abs=0.05)

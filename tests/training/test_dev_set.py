"""Dev scores against loops over all pairs of sentences."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isogloss.config import BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.training import dev_set as dev
from isogloss.training.batches import PairRows
from isogloss.training.dev_set import DevScore, DevSet, TeacherScores
from isogloss.training.distillation import distill
from isogloss.types import Bitext, FloatArray, IntArray

SOURCES, WIDTH = 6, 4


def cosine(a: FloatArray, b: FloatArray) -> float:
    return float(a @ b / (math.sqrt(a @ a) * math.sqrt(b @ b)))


def by_definition(pairs: PairRows, vectors: FloatArray, teacher: NDArray[np.float16]) -> tuple[float, float, float, float]:
    """Means over languages of retrieval, searching the teacher's index, mse and cosine, one sentence at a time."""
    retrieval, index, mse, cosines = [], [], [], []
    for language in sorted(set(pairs.language.tolist())):
        mine = [(s, t) for s, t, spoken in zip(pairs.source, pairs.target, pairs.language, strict=True) if spoken == language]
        sources, targets = sorted({s for s, _ in mine}), sorted({t for _, t in mine})
        there = [(s, max(targets, key=lambda t, s=s: cosine(vectors[s], vectors[t]))) in mine for s in sources]  # type: ignore[misc]
        back = [(max(sources, key=lambda s, t=t: cosine(vectors[s], vectors[t])), t) in mine for t in targets]  # type: ignore[misc]
        retrieval.append((np.mean(there) + np.mean(back)) / 2)
        own = {s: teacher[s].astype(np.float32) for s in sources}
        index.append(np.mean([(max(sources, key=lambda s, t=t: cosine(own[s], vectors[t])), t) in mine for t in targets]))  # type: ignore[misc]
        taught = [teacher[s].astype(np.float64) for s, _ in mine]
        both = [(vectors[s] - one, vectors[t] - one) for (s, t), one in zip(mine, taught, strict=True)]
        mse.append(np.mean([(a @ a + b @ b) / 2 for a, b in both]))
        cosines.append(np.mean([cosine(vectors[t], one.astype(np.float32)) for (_, t), one in zip(mine, taught, strict=True)]))
    return float(np.mean(retrieval)), float(np.mean(index)), float(np.mean(mse)), float(np.mean(cosines))


@st.composite
def dev_pairs(draw: st.DrawFn) -> PairRows:
    one = st.tuples(st.integers(0, SOURCES - 1), st.integers(0, 9), st.integers(0, 2))
    drawn = draw(st.lists(one, min_size=1, max_size=25))
    source, target, language = (np.array(column, dtype=np.int64) for column in zip(*drawn, strict=True))
    return PairRows(source, SOURCES + target, np.zeros_like(source), language)


@settings(deadline=None)
@given(dev_pairs(), st.integers(0, 9999))
def test_scores_are_what_the_words_say(pairs: PairRows, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(SOURCES + 10, WIDTH)).astype(np.float32)
    teacher = random.normal(size=(SOURCES, WIDTH)).astype(np.float16)
    asked: list[IntArray] = []

    def vectors_of(rows: IntArray) -> FloatArray:
        asked.append(rows)
        return vectors[rows]

    score = DevSet(pairs, teacher).score(vectors_of)
    near = score.teacher
    assert near is not None
    found = score.retrieval, near.teacher_index, near.mse, near.cosine
    assert found == pytest.approx(by_definition(pairs, vectors, teacher), abs=1e-4)
    for parts, whole in ((score.translated, score.retrieval), (near.indexed, near.teacher_index)):
        assert len(parts) == len(set(pairs.source.tolist())) and parts.sum() == pytest.approx(whole)
    assert len(asked) == 1 and set(asked[0].tolist()) == {*pairs.source.tolist(), *pairs.target.tolist()}
    assert len(set(asked[0].tolist())) == len(asked[0]), "every sentence is encoded once"


@settings(deadline=None)
@given(dev_pairs(), st.integers(0, 9999), st.integers(1, 4))
def test_the_lead_is_what_the_words_say(pairs: PairRows, seed: int, block: int) -> None:
    """By how much cosine a pair's translation is nearer than the nearest one that is not of its source, in loops."""
    vectors = np.random.default_rng(seed).normal(size=(SOURCES + 10, WIDTH)).astype(np.float32)
    is_main_process = []
    for language in sorted(set(pairs.language.tolist())):
        mine = [(s, t) for s, t, spoken in zip(pairs.source, pairs.target, pairs.language, strict=True) if spoken == language]
        wrong = {s: [cosine(vectors[s], vectors[t]) for _, t in mine if (s, t) not in mine] for s, _ in mine}
        is_main_process.append(np.mean([cosine(vectors[s], vectors[t]) - max(wrong[s], default=-1.0) for s, t in mine]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dev, "BLOCK", block)
        score = DevSet(pairs, None).score(lambda rows: vectors[rows])
    assert score.lead == pytest.approx(np.mean(is_main_process), abs=1e-5)


def test_a_student_that_translates_rightly_finds_everything() -> None:
    pairs = PairRows(np.array([0, 1, 2, 0]), np.array([3, 4, 5, 6]), np.zeros(4, np.int64), np.array([0, 0, 0, 1]))
    directions = np.eye(3, dtype=np.float32)
    vectors = np.concatenate([directions, 2 * directions, directions[:1]])
    score = DevSet(pairs, directions.astype(np.float16)).score(lambda rows: vectors[rows])
    assert score.teacher is not None and score.teacher.cosine == pytest.approx(1.0)
    assert score.retrieval == score.teacher.teacher_index == 1.0
    assert score.teacher.mse == pytest.approx((0.5 + 0.0) / 2), "lengths count for mse, and languages count alike"


def test_languages_count_alike_however_many_pairs_they_have() -> None:
    many = np.arange(30)
    source, target = np.append(many, [0, 1]), np.append(30 + many, [60, 61])
    pairs = PairRows(source, target, np.zeros(32, np.int64), np.array([0] * 30 + [1] * 2))
    basis = np.eye(62, dtype=np.float32)
    vectors = np.concatenate([basis[:30], basis[:30], basis[[1, 0]]])  # the small language is all wrong
    assert DevSet(pairs, None).score(lambda rows: vectors[rows]).retrieval == pytest.approx(0.5)


def test_without_a_teacher_there_is_retrieval_alone() -> None:
    pairs = PairRows(*(np.array(one) for one in ([0, 1], [2, 3], [0, 0], [0, 0])))
    score = DevSet(pairs, None).score(lambda rows: np.eye(4, dtype=np.float32)[rows % 2])
    assert score.teacher is None and score.retrieval == 1.0
    assert score.values() == {"dev_retrieval": 1.0, "dev_lead": 1.0} and score.note() == "dev 100.0 % found, lead 1.000"
    for select in ("mse", "both", "retrieval"):
        assert score.selection_score(select).value == score.lead and score.selection_score(select).found.tolist() == [0.5, 0.5]
    assert len(DevSet(pairs, None)) == 2


def test_what_a_checkpoint_is_chosen_by() -> None:
    score = DevScore(0.5, np.array([0.5, 0.0]), TeacherScores(0.25, 0.2, 0.9, np.array([0.0, 0.25])))
    assert score.selection_score("retrieval").found.tolist() == [0.5, 0.0], "translations alone"
    assert score.selection_score("both").found.tolist() == [0.25, 0.125], "and the teacher's index, as much"
    assert not len(score.selection_score("mse").found), "the distance alone"
    assert {score.selection_score(select).value for select in ("retrieval", "both", "mse")} == {-0.2}, (
        "a smaller distance is better"
    )
    assert score.values() == {"dev_retrieval": 0.5, "dev_teacher_index": 0.25, "dev_mse": 0.2, "dev_cosine": 0.9}
    assert score.note() == "dev 50.0 % found, 25.0 % in the teacher's index, mse 0.2000"


def test_a_teacher_in_another_space_is_not_measured_against(models: Path, bitext: Bitext) -> None:
    """Soft similarity follows how a teacher's sentences lie, in any dimension; a distance to them there is not."""
    student = Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")
    teacher = load(str(models / "teacher"), device="cpu")
    training = TrainingSettings(epochs=1, batch_pairs=16, dev_pairs=5, dev_share=0.2, dev_checks=1)
    settings = LossSettings(mse=0.0, soft_similarity=1.0)
    assert student.dimension != teacher.dimension
    summary = distill(
        student, teacher, bitext, Recipe(training=training, losses=settings, bridge=BridgeSettings(enabled=False))
    )
    assert set(summary.dev) == {"dev_retrieval", "dev_lead"}

"""The exam: a grown student's answers are its own, though only what is cut otherwise is computed again."""

from pathlib import Path

import numpy as np

from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.models.vocabulary.grow import needed_pieces, original_rows
from isogloss.progress import Step
from isogloss.runs.exam import Exam
from isogloss.types import Bitext
from tiny import PAIRS

RUSSIAN = [pair.target for pair in PAIRS if pair.language == "ru"]
OTHERS = {"en": [pair.source for pair in PAIRS], "de": [pair.target for pair in PAIRS if pair.language == "de"]}


def test_a_grown_student_is_asked_again_for_what_changed_alone(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher, whole = load(str(models / "teacher")), Student.from_pretrained(str(models / "student"), device="cpu")
    students = [Student.from_pretrained(str(models / "student"), device="cpu") for _ in range(2)]
    taken: list[list[Step]] = []
    for student in students:
        student.trim(OTHERS, "alphabet")
        taken.append([])
        exam = Exam(AlignmentEvaluator(bitext), teacher, tmp_path / "cache", tmp_path, taken[-1].append)
        before = exam.vectors(student, "before")
        pieces = needed_pieces(whole.tokenizer, student.tokenizer, {"ru": RUSSIAN})
        student.grow(pieces, original_rows(whole.table, whole.tokenizer, pieces))
        after = exam.vectors(student, "after")
        assert np.allclose(after, student.encode(exam.texts), atol=1e-5)
        same = [row for row, text in enumerate(exam.texts) if text not in RUSSIAN]
        assert np.array_equal(before[same], after[same]) and not np.allclose(before, after, atol=1e-3)
        exam.ask("grown", after)
        assert [report.model for report in exam.reports] == ["grown"]
    totals = [{step.stage: step.total for step in steps} for steps in taken]
    assert totals[0]["before"] == 120 and totals[0]["after"] == len(RUSSIAN) == 40
    assert {step.note for step in taken[1] if step.stage in ("before", "after")} == {"reused"}

"""The loop says when the weights it keeps are worse than those it began with."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isogloss.training.dev_set import DevScore, TeacherScores
from isogloss.types import FloatArray, IntArray
from training.one_number import STEPS, Dial, Script, run


class Ranking(Dial):
    """The same by a loss that follows nobody."""

    def losses(self) -> list[dict[str, float]]:
        return [{"ranking": one.pop("mse"), **one} for one in super().losses()]


class Nearness(Script):
    """The same with a teacher: `scores` are found, and what is near the teacher falls by a twentieth with each step."""

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> DevScore:
        found = super().score(vectors_of).retrieval
        near = TeacherScores(found, 1.0 - found, 0.9 - 0.05 * self.asked[-1], np.zeros(0))
        return DevScore(found, np.zeros(0), near)


def test_a_training_that_lost_the_teacher_is_said_and_said_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rising = [step / STEPS for step in range(STEPS + 1)]
    first = run(Dial(), tmp_path, Nearness(rising))
    assert first.best_step == STEPS and first.dev_before["dev_cosine"] == pytest.approx(0.9)
    assert first.setback.startswith(
        "training made the student worse on the dev pairs: cosine to the teacher 0.10 (it was 0.90)"
    )
    assert caplog.messages == [first.setback]
    again = run(Dial(), tmp_path, Nearness(rising))
    assert (again.steps_now, again.setback, again.dev_before) == (0, first.setback, first.dev_before)


@pytest.mark.parametrize(("taught", "advice"), [(True, "add losses.mse"), (False, "lower training.learning_rate, or train")])
def test_without_a_teacher_none_is_advised(taught: bool, advice: str) -> None:
    assert advice in run(Ranking(), None, Script([1.0, *[0.5] * STEPS]), has_teacher=taught).setback


def test_a_training_without_a_gain_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert run(Dial(), None, Script([1.0, *[0.5] * STEPS])).setback.startswith("no step of the training did better")
    assert len(caplog.messages) == 1
    assert not run(Dial(), None, Script([step / STEPS for step in range(STEPS + 1)])).setback and len(caplog.messages) == 1
    assert not run(Dial()).setback, "without dev pairs nothing is known"

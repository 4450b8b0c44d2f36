"""Broken curves are told from noisy ones, the sentences say what a person needs, and a checkpoint changes no answer."""

import json
import math
from collections.abc import Iterable
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.training.health import Diagnosis, LossWatch, no_gain, setback

Curve = list[float]


def medians(watch: LossWatch) -> dict[str, float]:
    """The median of what each loss is compared with."""
    return {name: median(kept["recent"]) for name, kept in watch.state_dict()["courses"].items() if kept["recent"]}


def first_trouble(watch: LossWatch, curve: Iterable[float], start: int = 0) -> tuple[int, Diagnosis] | None:
    for step, loss in enumerate(curve, start):
        if diagnosis := watch.check(step, {"mse": loss}):
            return step, diagnosis
    return None


@st.composite
def healthy(draw: Any) -> Curve:  # noqa: ANN401 - hypothesis gives a function
    """A curve that falls over decades or stays, with heavy noise, and bad batches: single ones and short runs of them."""
    steps = draw(st.integers(50, 1500))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    level = draw(st.floats(1e-4, 1e4)) * np.exp(-np.linspace(0, draw(st.floats(0, 9)), steps)) + draw(
        st.sampled_from([0, 1e-3])
    )
    curve = level * np.exp(random.normal(0, draw(st.floats(0, 1)), steps))
    for place in random.integers(30, steps, draw(st.integers(0, 5))).tolist():
        curve[place : place + int(random.integers(1, 4))] *= 1000.0
    return [float(loss) for loss in curve]


@given(healthy(), st.sampled_from([0, 100]))
@settings(max_examples=150, deadline=None)
def test_a_healthy_curve_never_triggers(curve: Curve, warmup: int) -> None:
    assert first_trouble(LossWatch(warmup), curve) is None


@given(healthy(), st.floats(300, 1e6), st.integers(1, 15))
@settings(max_examples=80, deadline=None)
def test_a_jump_that_stays_triggers_after_as_many_checks_as_patience(curve: Curve, jump: float, patience: int) -> None:
    watch = LossWatch(patience=patience)
    for step, loss in enumerate(curve):
        watch.check(step, {"mse": loss})  # short runs of bad batches may exhaust a small patience
    watch.check(len(curve), {"mse": 0.0})
    found = first_trouble(watch, [jump * max(curve)] * 50, len(curve) + 1)
    assert found is not None and found[0] == len(curve) + patience
    assert "exploded" in found[1].sentence


def test_a_slow_climb_is_measured_from_where_it_began() -> None:
    """One hundredth a step: the median of the last steps climbs along, the lowest one does not."""
    calm = [1.0] * 300
    found = first_trouble(LossWatch(), calm + [1.01**step for step in range(2000)])
    assert found is not None
    assert found[0] == 300 + math.ceil(math.log(20) / math.log(1.01)) + 9


def test_bad_batches_short_of_patience_are_noise_and_do_not_move_the_median() -> None:
    watch = LossWatch(patience=10)
    assert first_trouble(watch, ([1.0] * 30 + [500.0] * 9) * 20) is None
    assert medians(watch) == {"mse": 1.0}


def test_while_the_rate_rises_a_high_loss_is_not_judged_and_a_broken_one_is() -> None:
    watch = LossWatch(warmup_steps=400)
    assert first_trouble(watch, [0.0] * 100 + [1.0] * 300) is None, "a student that starts as its teacher has to leave zero"
    assert first_trouble(watch, [1.0] * 200, 400) is None
    assert first_trouble(watch, [30.0] * 20, 600) is not None
    broken = watch.check(399, {"mse": math.nan})
    assert broken is not None and broken.sentence.endswith("; the learning rate was still rising")
    assert "training.warmup" in broken.hint
    later = watch.check(400, {"mse": math.nan})
    assert later is not None and "rising" not in later.sentence and "training.warmup" not in later.hint


def test_a_loss_near_zero_may_jump() -> None:
    """From 1 to a millionth: what happens below a thousandth of where it came from is not worth stopping for."""
    curve = [10.0 ** (-step / 100) for step in range(600)] + [1e-6] * 300
    assert first_trouble(LossWatch(), [*curve, *[0.015] * 100]) is None
    assert first_trouble(LossWatch(), [*curve, *[0.5] * 100]) is not None


@pytest.mark.parametrize("calm", [0.0, -1.0])
def test_a_loss_without_a_scale_is_not_judged(calm: float) -> None:
    assert first_trouble(LossWatch(), [calm] * 300 + [5.0] * 300) is None


def test_nothing_is_judged_before_there_is_something_to_compare_with() -> None:
    assert first_trouble(LossWatch(patience=1), [1e-3] * 8 + [10.0] * 15) is None


def test_what_broke_is_named_with_its_step_and_the_gradients_before_it() -> None:
    watch = LossWatch()
    for step, norm in enumerate([0.9, 0.8, 0.7, 0.9, 1.1, 1.0, 350.0]):
        assert watch.check(step, {"mse": 0.1, "ranking": 2.0, "spread": 0.3}, norm) is None
    found = watch.check(7, {"mse": 0.1, "ranking": math.inf, "spread": math.nan}, 2e5)
    assert found is not None
    assert "became" in found.sentence
    assert found.sentence == (
        "ranking became inf, spread became nan while mse stayed finite at step 8; "
        "the gradient's norm was 0.9, 1.1, 1, 350 and 2e+05 over the last checks"
    )
    assert found.hint.startswith("lower training.learning_rate")


def test_calm_gradients_point_at_the_batch_and_no_history_at_the_start() -> None:
    watch = LossWatch()
    at_once = watch.check(0, {"mse": math.nan}, math.nan)
    assert at_once is not None and "isogloss doctor" in at_once.hint and "at step 1;" in at_once.sentence
    for step in range(10):
        assert watch.check(step, {"mse": 0.1}, 1.0) is None
    calm = watch.check(10, {"mse": math.nan})
    assert calm is not None and "look for broken text" in calm.hint
    assert calm.sentence.startswith("mse became nan at step 11; the gradient's norm was 1, 1, 1, 1 and 1")


def test_a_gradient_that_is_not_finite_is_enough() -> None:
    watch = LossWatch()
    assert watch.check(0, {"mse": 0.1}, 1.0) is None
    found = watch.check(1, {"mse": 0.1}, math.inf)
    assert found is not None and "became" in found.sentence
    assert found.sentence.startswith("the gradient's norm became inf, though every loss was finite at step 2")


def test_an_explosion_says_which_how_far_and_for_how_long() -> None:
    watch = LossWatch(patience=3)
    for step in range(50):
        assert watch.check(step, {"mse": 0.5, "ranking": 1.0}) is None
    found = [watch.check(50 + step, {"mse": 0.5, "ranking": 400.0}, 7.0) for step in range(3)]
    assert found[:2] == [None, None] and found[2] is not None
    assert found[2].sentence == (
        "ranking exploded: 400 at step 53, after a running median of 1 at its lowest, for 3 checks in a row; "
        "the gradient's norm was 7, 7 and 7 over the last checks"
    )
    assert "training.learning_rate" in found[2].hint


def test_the_running_median_is_of_the_last_steps_only() -> None:
    watch = LossWatch(window=5)
    first_trouble(watch, [9.0, 9.0, 1.0, 5.0, 2.0, 4.0, 3.0])
    assert medians(watch) == {"mse": 3.0}


@given(healthy(), st.data())
@settings(max_examples=60, deadline=None)
def test_it_goes_on_from_a_checkpoint_with_the_same_answers(curve: Curve, data: st.DataObject) -> None:
    curve = [*curve, *[max(curve) * 5000] * 12, math.nan]
    cut = data.draw(st.one_of(st.integers(0, len(curve) - 1), st.integers(len(curve) - 4, len(curve) - 1)))
    whole, before, after = (LossWatch(warmup_steps=20) for _ in range(3))
    answers = [whole.check(step, {"mse": loss}, loss / 2) for step, loss in enumerate(curve)]
    for step, loss in enumerate(curve[:cut]):
        before.check(step, {"mse": loss}, loss / 2)
    after.load_state_dict(json.loads(json.dumps(before.state_dict(), allow_nan=False)))
    assert answers[cut:] == [after.check(step, {"mse": loss}, loss / 2) for step, loss in enumerate(curve[cut:], cut)]
    assert medians(after) == medians(whole) and after.state_dict() == whole.state_dict()


# ── worse than before ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "count", "lost"),
    [
        ({"cosine": 0.75}, {"cosine": 0.72}, 100, "cosine to the teacher 0.72 (it was 0.75)"),
        ({"cosine": 0.75}, {"cosine": 0.74}, 100, ""),
        ({"cosine": 0.75}, {"cosine": 0.90}, 100, ""),
        ({"cosine": None, "retrieval": 0.9}, {"cosine": 0.1, "retrieval": 0.9}, 100, ""),
        ({"retrieval": 0.9}, {"retrieval": 0.87}, 100, ""),  # two standard errors of a difference are 8.5 points
        ({"retrieval": 0.9}, {"retrieval": 0.87}, 10_000, "translations found 87.0% (it was 90.0%)"),
        ({"retrieval": 1.0}, {"retrieval": 0.995}, 10_000, ""),
        ({"teacher_index": 0.5}, {"teacher_index": 0.3}, 1000, "found in the teacher's index 30.0% (it was 50.0%)"),
    ],
)
def test_what_was_clearly_lost_is_told_from_chance(
    before: dict[str, float | None], after: dict[str, float | None], count: int, lost: str
) -> None:
    found = setback(before, after, count, "dev", near_teacher=True)
    assert (str(found) if found else "") == (
        lost
        and f"training made the student worse on the dev pairs: {lost}; lower training.learning_rate, or train for more steps:"
        " raise training.epochs"
    )


def test_what_to_do_depends_on_whether_anything_held_it() -> None:
    for found in (setback({"cosine": 0.9}, {"cosine": 0.1}, 9, "dev", near_teacher=False), no_gain(near_teacher=False)):
        assert found is not None and "add losses.mse" in found.hint
    assert "training.epochs" in no_gain(near_teacher=True).hint

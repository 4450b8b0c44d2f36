"""Every example once a pass, tasks in their shares, and all of it a function of the seed and the step."""

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.training.engines.eager import split_by_task
from isogloss.training.tasks.schedule import TaskSchedule


@st.composite
def schedules(draw: st.DrawFn) -> TaskSchedule:
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    batches = [draw(st.integers(1, 9)) for _ in sizes]
    weights = draw(st.sampled_from([(), tuple(draw(st.floats(0.1, 5)) for _ in sizes)]))
    together = draw(st.booleans())
    return TaskSchedule(sizes, batches, draw(st.integers(0, 99)), draw(st.integers(1, 3)), 0, weights, together)


@given(schedules())
@settings(deadline=None)
def test_a_pass_shows_every_example_once(schedule: TaskSchedule) -> None:
    seen: list[list[int]] = [[] for _ in schedule.sizes]
    for step in range(schedule.steps):
        for task, numbers in split_by_task(schedule.examples(step), schedule.offsets):
            assert 0 < len(numbers) <= schedule.batches[task]
            seen[task] += numbers.tolist()
    for size, drawn in zip(schedule.sizes, seen, strict=True):
        for start in range(0, len(drawn) - size + 1, size):
            assert sorted(drawn[start : start + size]) == list(range(size))
        assert len(set(drawn[len(drawn) // size * size :])) == len(drawn) % size


@given(schedules())
@settings(deadline=None)
def test_examples_are_counted_as_they_are_drawn(schedule: TaskSchedule) -> None:
    sizes = [len(schedule.examples(step)) for step in range(schedule.steps)]
    assert schedule.pairs == sum(sizes)
    assert [schedule.pairs_before(step) for step in range(schedule.steps + 2)] == [
        *np.concatenate([[0], np.cumsum(sizes)]).tolist(),
        sum(sizes),
    ]


@given(schedules())
@settings(deadline=None, max_examples=30)
def test_a_step_does_not_depend_on_those_before_it(schedule: TaskSchedule) -> None:
    again = TaskSchedule(schedule.sizes, schedule.batches, schedule.seed, steps=schedule.steps, together=schedule.together)
    once = TaskSchedule(schedule.sizes, schedule.batches, schedule.seed, steps=schedule.steps, together=schedule.together)
    backwards = [again.examples(step) for step in reversed(range(again.steps))]
    for step, chosen in enumerate(reversed(backwards)):
        assert np.array_equal(chosen, once.examples(step))


def test_one_task_is_gone_through_as_often_as_asked() -> None:
    schedule = TaskSchedule([10], [4], seed=3, epochs=2)
    assert schedule.steps == 6 and schedule.pairs == 20
    first, second = (np.concatenate([schedule.examples(step) for step in steps]) for steps in (range(3), range(3, 6)))
    assert sorted(first) == sorted(second) == list(range(10)) and not np.array_equal(first, second)
    assert not np.array_equal(first, np.concatenate([TaskSchedule([10], [4], 4).examples(step) for step in range(3)]))


def task_counts(schedule: TaskSchedule) -> list[int]:
    counts = Counter(
        task for step in range(schedule.steps) for task, _ in split_by_task(schedule.examples(step), schedule.offsets)
    )
    return [counts[task] for task in range(len(schedule.sizes))]


def test_without_weights_each_task_is_gone_through_equally_often() -> None:
    assert task_counts(TaskSchedule([40, 9, 100], [4, 3, 10], seed=1, epochs=2)) == [20, 6, 20]


def test_weights_are_shares_of_the_steps_and_the_first_task_sets_their_number() -> None:
    schedule = TaskSchedule([40, 9], [4, 3], seed=1, epochs=2, weights=[1.0, 3.0])
    assert schedule.steps == 80 and task_counts(schedule) == [20, 60]
    assert task_counts(TaskSchedule([40, 9], [4, 3], seed=1, steps=10, weights=[2.0, 1.0])) == [7, 3]


def test_tasks_of_a_mixed_schedule_do_not_come_one_after_the_other() -> None:
    schedule = TaskSchedule([100, 100], [10, 10], seed=5, epochs=5)
    order = [split_by_task(schedule.examples(step), schedule.offsets)[0][0] for step in range(schedule.steps)]
    assert sum(a != b for a, b in pairwise(order)) > 20


def test_together_a_step_has_a_batch_of_each() -> None:
    schedule = TaskSchedule([12, 5], [4, 2], seed=1, epochs=2, together=True)
    assert schedule.steps == 6
    for step in range(6):
        assert [task for task, _ in split_by_task(schedule.examples(step), schedule.offsets)] == [0, 1]

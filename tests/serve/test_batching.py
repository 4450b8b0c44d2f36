"""Which sentences are computed together: property tests of the queue, and the best batch against brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.serve.batching import BATCH_COST, FEWEST_TOKENS, Job, JobQueue, QueueFull, best_run

LENGTHS = st.lists(st.integers(0, 300), min_size=1, max_size=40)
BUDGET = 256


def emptied(queue: JobQueue, workers: int = 1) -> list[list[tuple[Job, int]]]:
    batches = []
    while batch := queue.take(workers):
        batches.append(batch)
    return batches


@given(st.lists(LENGTHS, min_size=1, max_size=8), st.integers(1, 4))
def test_each_sentence_is_computed_once_and_within_the_budget(requests: list[list[int]], workers: int) -> None:
    queue = JobQueue(10**6)
    jobs = [Job(lengths, BUDGET, lane=number % 2) for number, lengths in enumerate(requests)]
    for job in jobs:
        queue.add(job)
    assert queue.tokens == sum(max(1, length) for lengths in requests for length in lengths)
    batches = emptied(queue, workers)
    computed = [(id(job), place) for batch in batches for job, place in batch]
    assert sorted(computed) == sorted((id(job), place) for job in jobs for place in range(len(job.lengths)))
    for batch in batches:
        longest = max(job.lengths[place] for job, place in batch)
        assert len(batch) * longest <= BUDGET or len(batch) == 1
        assert len({job.lane for job, _place in batch}) == 1
    assert queue.tokens == 0 and len(queue) == 0


@given(st.lists(LENGTHS, min_size=1, max_size=8))
def test_every_request_advances_in_a_round_of_batches(requests: list[list[int]]) -> None:
    """However long the others are, and whatever comes later: one turn for each request that was there before."""
    queue = JobQueue(10**6)
    jobs = [Job(lengths, BUDGET) for lengths in requests]
    for job in jobs:
        queue.add(job)
    before = {id(job): len(job.waiting) for job in jobs}
    for turn in range(1, len(jobs) + 1):
        queue.take()
        queue.add(Job([5] * 50, BUDGET))
        for job in jobs[:turn]:
            assert len(job.waiting) < before[id(job)]


def test_a_short_request_does_not_wait_for_a_long_one() -> None:
    queue = JobQueue(10**6)
    long, short = Job([10] * 2000, BUDGET), Job([10], BUDGET)
    queue.add(long)
    queue.add(short)
    assert (short, 0) in queue.take()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.data(), st.integers(1, 300))
def test_the_best_run_is_that_of_brute_force(lengths: list[int], data: st.DataObject, budget: int) -> None:
    lengths = sorted(lengths)
    must = data.draw(st.integers(0, len(lengths) - 1))
    start, stop = best_run(np.array(lengths), must, budget)

    def score(first: int, last: int) -> float:
        run = lengths[first:last]
        return sum(run) / (len(run) * run[-1] + BATCH_COST)

    runs = [(a, b) for a, b in combinations(range(len(lengths) + 1), 2) if a <= must < b]
    fitting = [run for run in runs if (run[1] - run[0]) * lengths[run[1] - 1] <= budget]
    if not fitting:
        assert (start, stop) == (must, must + 1)
    else:
        assert (start, stop) in fitting
        assert score(start, stop) == pytest.approx(max(score(*run) for run in fitting))


def test_a_full_queue_refuses_and_forgets_nothing() -> None:
    queue = JobQueue(100)
    first = Job([60], BUDGET)
    queue.add(first)
    with pytest.raises(QueueFull):
        queue.add(Job([41], BUDGET))
    queue.add(Job([40], BUDGET))
    assert queue.tokens == 100 and len(queue) == 2
    queue.drop(first)
    queue.drop(first)
    assert queue.tokens == 40 and len(queue) == 1
    queue.add(Job([60], BUDGET))
    assert sum(len(batch) for batch in emptied(queue)) == 2


def test_what_is_in_a_batch_already_is_not_dropped_twice() -> None:
    queue = JobQueue(10**6)
    job = Job([100, 100, 100], 200)
    queue.add(job)
    assert len(queue.take()) == 2
    queue.drop(job)
    assert queue.tokens == 0 and queue.take() == []


def test_little_work_is_shared_by_the_workers() -> None:
    def batch_sizes(workers: int) -> list[int]:
        queue = JobQueue(10**6)
        queue.add(Job([16] * 32, 4 * FEWEST_TOKENS))
        return [len(batch) for batch in emptied(queue, workers)]

    assert batch_sizes(1) == [32]
    assert batch_sizes(4)[0] == 8


def test_each_model_has_its_own_budget() -> None:
    queue = JobQueue(10**6)
    queue.add(Job([10] * 100, 1000, lane="large"))
    queue.add(Job([10] * 100, 200, lane="small"))
    assert [len(queue.take()), len(queue.take())] == [100, 20]


def test_a_request_without_sentences_is_not_queued() -> None:
    queue = JobQueue(10)
    queue.add(Job([], BUDGET))
    assert len(queue) == 0 and queue.take() == []

"""Which sentences are computed together: a queue of requests that is bounded in tokens, and the batches taken from it.

Requests take turns. The request whose turn it is has its longest waiting sentence in the batch; around that sentence the batch
is filled with sentences of similar length, of any request. So a request of a thousand sentences holds nobody up, and every
request gets a sentence into one of the next batches, as many as there are requests before it. Nothing here waits or knows about
threads: `workers` does.
"""

from collections import Counter, deque
from collections.abc import Hashable, Sequence

import numpy as np

from isogloss.types import IntArray

FEWEST_TOKENS = 128  # of a batch that is cut to give every worker one, and of a request's share of a batch
MOST_OFFERED = 256  # sentences that one batch is chosen from
BATCH_COST = 64  # tokens that could be computed in the time that a batch takes by itself


class QueueFull(Exception):
    """The queue has no room for a request."""


class Job:
    """A request: sentences of these lengths, in tokens, for batches of at most `budget` tokens.

    Sentences of different lanes (models) are never in one batch.
    """

    def __init__(self, lengths: Sequence[int], budget: int, lane: Hashable = None) -> None:
        self.lengths, self.budget, self.lane = [max(1, length) for length in lengths], budget, lane
        self.waiting: list[int] = sorted(range(len(lengths)), key=self.lengths.__getitem__)  # places, the longest last
        self.waiting_tokens = sum(self.lengths)


Batch = list[tuple[Job, int]]  # a job and the place of a sentence in it


class JobQueue:
    """Jobs that wait. `limit` is the most tokens that they may have together."""

    def __init__(self, limit: int) -> None:
        self.limit, self.tokens = limit, 0
        self._jobs: deque[Job] = deque()
        self._tokens_of: Counter[Hashable] = Counter()  # by lane

    def __len__(self) -> int:
        """Number of jobs with waiting sentences."""
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Append a job, or raise `QueueFull`."""
        if self.tokens + job.waiting_tokens > self.limit:
            raise QueueFull
        if job.waiting:
            self._jobs.append(job)
            self._count(job, job.waiting_tokens)

    def drop(self, job: Job) -> None:
        """Forget the sentences of a job that still wait."""
        if job.waiting:
            self._jobs.remove(job)
            self._forget(job, set(job.waiting))

    def take(self, workers: int = 1) -> Batch:
        """The next batch; empty if nothing waits.

        It has at most the budget of its first job in tokens, padding included, or one longer sentence. With little to do it
        is smaller, so that each of the `workers` has a part.
        """
        if not self._jobs:
            return []
        head = self._jobs[0]
        budget = min(head.budget, max(FEWEST_TOKENS, -(-self._tokens_of[head.lane] // workers)))
        offered = self._offered(head.lane, budget)
        lengths = np.array([job.lengths[place] for job, place in offered], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        start, stop = best_run(lengths[order], int(np.flatnonzero(order == 0)[0]), budget)
        batch = [offered[number] for number in order[start:stop]]
        self._jobs.rotate(-1)
        chosen: dict[Job, set[int]] = {}
        for job, place in batch:
            chosen.setdefault(job, set()).add(place)
        for job, places in chosen.items():
            self._forget(job, places)
            if not job.waiting:
                self._jobs.remove(job)
        return batch

    def _offered(self, lane: Hashable, budget: int) -> Batch:
        """The longest waiting sentences of each job, up to its share of the batch; the first is the one that must be in it."""
        jobs = [job for job in self._jobs if job.lane == lane]
        share = max(FEWEST_TOKENS, budget // len(jobs))
        offered: Batch = []
        for job in jobs:
            tokens = 0
            for place in reversed(job.waiting):
                tokens += job.lengths[place]
                if tokens > share and tokens > job.lengths[place]:
                    break
                offered.append((job, place))
            if len(offered) >= MOST_OFFERED:
                break
        return offered

    def _forget(self, job: Job, places: set[int]) -> None:
        gone = sum(job.lengths[place] for place in places)
        job.waiting = [place for place in job.waiting if place not in places]
        job.waiting_tokens -= gone
        self._count(job, -gone)

    def _count(self, job: Job, tokens: int) -> None:
        self.tokens += tokens
        self._tokens_of[job.lane] += tokens


def best_run(lengths: IntArray, must: int, budget: int) -> tuple[int, int]:
    """The run of ascending `lengths`, as start and stop, that is the best batch with sentence `must`.

    A batch of n sentences, the longest of which has l tokens, takes the time of n · l tokens and `BATCH_COST`. The best one has
    the most tokens of text for its time, with n · l ≤ budget.
    """
    starts, ends = np.arange(must + 1)[:, None], np.arange(must, len(lengths))[None, :]
    before = np.concatenate([[0], np.cumsum(lengths)])
    padded = (ends - starts + 1) * lengths[ends]
    score = (before[ends + 1] - before[starts]) / (padded + BATCH_COST)
    score[padded > budget] = -1.0
    score[must, 0] = max(score[must, 0], 0.0)  # alone it may be longer than the budget
    start, end = np.unravel_index(int(score.argmax()), score.shape)
    return int(start), must + int(end) + 1

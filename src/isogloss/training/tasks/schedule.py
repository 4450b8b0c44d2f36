"""Which examples of which task each step of a training sees; `batches` is the same for the pairs of a distillation."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isogloss.types import IntArray


class TaskSchedule:
    """Which examples each step sees, as numbers that run through all tasks: those of task t begin at `offsets[t]`.

    Each task is gone through in an order of its own, drawn anew for every pass; the last batch of a pass has what is left.
    A step takes one batch of one task, tasks in proportion to `weights` (without any: to their batches, so that each is
    gone through `epochs` times), or with `together` one of each. Without `steps`, the first task sets the length: it is
    gone through `epochs` times, the others as often as that gives. All of it is a function of the seed and the step.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        batches: Sequence[int],
        seed: int,
        epochs: int = 1,
        steps: int = 0,
        weights: Sequence[float] = (),
        together: bool = False,
    ) -> None:
        """`sizes` are the tasks' numbers of examples, `batches` the examples of a batch of each."""
        self.sizes, self.batches, self.seed, self.together = tuple(sizes), tuple(batches), seed, together
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self._passes = [-(-size // batch) for size, batch in zip(self.sizes, self.batches, strict=True)]  # batches in a pass
        self._order = lru_cache(maxsize=2 * len(self.sizes))(self._drawn)
        if together or len(self.sizes) == 1:
            total = steps or epochs * self._passes[0]
            of_task = np.zeros(total, dtype=np.int64)
        else:
            of_task = self._dealt(np.array(weights or self._passes, dtype=np.float64), epochs, steps)
        # The turn of a step is how many batches of its task were taken before it.
        self._task, self._turn = of_task, _turns(of_task)
        self._pairs_until = np.concatenate([[0], np.cumsum([self._size(step) for step in range(len(of_task))])]).astype(
            np.int64
        )

    def _dealt(self, weights: NDArray[np.float64], epochs: int, steps: int) -> IntArray:
        """The task of each step: numbers by the largest remainder, in a drawn order."""
        shares = weights / weights.sum()
        total = steps or max(1, math.ceil(epochs * self._passes[0] / shares[0] - 1e-9))
        exact = shares * total
        counts = np.floor(exact).astype(np.int64)
        counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
        return np.random.default_rng([self.seed, len(self.sizes)]).permutation(np.repeat(np.arange(len(counts)), counts))

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return len(self._task)

    @property
    def pairs(self) -> int:
        """Examples of all steps, counted as often as they are drawn."""
        return int(self._pairs_until[-1])

    def pairs_before(self, step: int) -> int:
        """Examples that were seen when `step` steps are done."""
        return int(self._pairs_until[min(step, self.steps)])

    def chosen(self, step: int) -> IntArray:
        """The examples of a step."""
        return np.concatenate([self._batch(task, turn) for task, turn in self._taken(step)])

    def _taken(self, step: int) -> list[tuple[int, int]]:
        """Which tasks a step takes a batch of, and the how manieth batch of that task."""
        if self.together:
            return [(task, step) for task in range(len(self.sizes))]
        return [(int(self._task[step]), int(self._turn[step]))]

    def _size(self, step: int) -> int:
        return sum(end - start for start, end in (self._cut(task, turn)[1:] for task, turn in self._taken(step)))

    def _cut(self, task: int, turn: int) -> tuple[int, int, int]:
        """The pass that a batch is in, and where in it the batch begins and ends."""
        number, place = divmod(turn, self._passes[task])
        start = place * self.batches[task]
        return number, start, min(start + self.batches[task], self.sizes[task])

    def _batch(self, task: int, turn: int) -> IntArray:
        number, start, end = self._cut(task, turn)
        batch: IntArray = self._order(task, number)[start:end] + self.offsets[task]
        return batch

    def _drawn(self, task: int, number: int) -> IntArray:
        return np.random.default_rng([self.seed, task, number]).permutation(self.sizes[task])


def _turns(of_task: IntArray) -> IntArray:
    """For each step, how many before it are of the same task."""
    turns = np.empty(len(of_task), dtype=np.int64)
    for task in np.unique(of_task):
        mine = np.flatnonzero(of_task == task)
        turns[mine] = np.arange(len(mine))
    return turns

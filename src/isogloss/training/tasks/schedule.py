"""Which examples of which task each step of a training sees; `batches` is the same for the pairs of a distillation."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isogloss.types import IntArray


class TaskSchedule:
    """Which examples each step sees, as numbers that run through all tasks: those of task t begin at `offsets[t]`.

    Each pass over a task's examples has an order of its own; the last batch of a pass has what is left. A step takes one batch
    of one task, tasks in proportion to `weights` (by default to their batches, so that each has `epochs` passes), or with
    `together` one of each. Without `steps`, the first task sets the length: it has `epochs` passes, the others as many as that
    gives. All of it is a function of the seed and the step.
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
        self.offsets = np.cumsum([0, *sizes])
        self._passes = -(-np.array(sizes) // np.array(batches))  # batches in a pass
        self._order = lru_cache(maxsize=2 * len(sizes))(self._drawn)
        # For each step (row) and task (column) how many batches of the task were taken before; −1 if it takes none of it.
        if together or len(sizes) == 1:
            self._turns = np.repeat(np.arange(steps or epochs * int(self._passes[0]))[:, None], len(sizes), axis=1)
        else:
            shares = np.array(weights or self._passes, dtype=np.float64)
            takes = self._task_of_steps(shares / shares.sum(), epochs, steps)[:, None] == np.arange(len(sizes))
            self._turns = np.where(takes, np.cumsum(takes, axis=0) - 1, -1)
        self._starts = self._turns % self._passes * self.batches
        counts = np.where(self._turns >= 0, np.minimum(self.batches, self.sizes - self._starts), 0)
        self._pairs_until = np.cumsum([0, *counts.sum(1)])

    def _task_of_steps(self, shares: NDArray[np.float64], epochs: int, steps: int) -> IntArray:
        """The task of each step: counts by the largest remainder, in random order."""
        total = steps or max(1, math.ceil(epochs * self._passes[0] / shares[0] - 1e-9))
        exact = shares * total
        counts = np.floor(exact).astype(np.int64)
        counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
        return np.random.default_rng([self.seed, len(self.sizes)]).permutation(np.repeat(np.arange(len(counts)), counts))

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return len(self._turns)

    @property
    def pairs(self) -> int:
        """Examples of all steps, counted as often as they are drawn."""
        return int(self._pairs_until[-1])

    def pairs_before(self, step: int) -> int:
        """Examples that were seen when `step` steps are done."""
        return int(self._pairs_until[min(step, self.steps)])

    def examples(self, step: int) -> IntArray:
        """The examples of a step."""
        parts = []
        for task in np.flatnonzero(self._turns[step] >= 0).tolist():
            order = self._order(task, int(self._turns[step, task] // self._passes[task]))
            start = int(self._starts[step, task])
            parts.append(order[start : start + self.batches[task]] + self.offsets[task])
        return np.concatenate(parts)

    def _drawn(self, task: int, number: int) -> IntArray:
        """The order of a task's examples in a pass."""
        return np.random.default_rng([self.seed, task, number]).permutation(self.sizes[task])

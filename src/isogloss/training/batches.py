"""Which pairs are seen together at each step of training.

`corpora.balance` orders the pairs of an epoch; here the order is cut into batches. Pairs that share a source sentence
travel together, so the source is encoded once for all its translations. A step's batch is found by counting: a run that
was interrupted continues in the middle of an epoch with the batches it would have seen.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.config import BalanceSettings
from isogloss.corpora.balance import Sampler
from isogloss.types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Pairs as row numbers into one list of distinct sentences, with the codes of their corpora and languages."""

    source: IntArray
    target: IntArray
    corpus: IntArray
    language: IntArray

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)

    def tobytes(self) -> bytes:
        """All that batches depend on, to be hashed."""
        return b"".join(column.tobytes() for column in (self.source, self.target, self.corpus, self.language))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Distinct sentences to encode, and for each pair the places of its two sides among them."""

    rows: IntArray
    source_at: IntArray
    target_at: IntArray

    @classmethod
    def of(cls, pairs: PairRows, chosen: IntArray) -> "Batch":
        """The chosen pairs as a batch. One that was drawn twice counts twice, and is encoded once."""
        rows, places = np.unique(np.concatenate([pairs.source[chosen], pairs.target[chosen]]), return_inverse=True)
        return cls(rows, places[: len(chosen)], places[len(chosen) :])


class Schedule:
    """The batches of a whole training, by the number of the step.

    All batches of an epoch have `batch_pairs` pairs, but for the last, which has what is left. One epoch's order is held
    at a time.
    """

    def __init__(self, pairs: PairRows, settings: BalanceSettings, seed: int, epochs: int, batch_pairs: int) -> None:
        self._rows, self._batch_pairs = pairs, batch_pairs
        self._sampler = Sampler(pairs.source, pairs.corpus, pairs.language, settings, seed)
        lengths = np.array([self._sampler.pairs_in(epoch) for epoch in range(epochs)], dtype=np.int64)
        self._pairs_until = np.concatenate([[0], np.cumsum(lengths)])
        self._steps_until = np.concatenate([[0], np.cumsum(-(-lengths // batch_pairs))])
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)

    @property
    def steps(self) -> int:
        """Steps of all epochs."""
        return int(self._steps_until[-1])

    @property
    def pairs(self) -> int:
        """Pairs of all epochs, counted as often as they are drawn."""
        return int(self._pairs_until[-1])

    def pairs_before(self, step: int) -> int:
        """Pairs that were seen when `step` steps are done."""
        epoch = self._epoch_of(step)
        inside = (step - int(self._steps_until[epoch])) * self._batch_pairs
        return min(int(self._pairs_until[epoch]) + inside, int(self._pairs_until[min(epoch + 1, len(self._pairs_until) - 1)]))

    def chosen(self, step: int) -> IntArray:
        """The pairs of a step, as indices."""
        epoch = self._epoch_of(step)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._sampler.order(epoch)
        start = (step - int(self._steps_until[epoch])) * self._batch_pairs
        return self._order[start : start + self._batch_pairs]

    def batch_at(self, step: int) -> Batch:
        """What a step encodes."""
        return Batch.of(self._rows, self.chosen(step))

    def _epoch_of(self, step: int) -> int:
        return int(np.searchsorted(self._steps_until, step, side="right")) - 1

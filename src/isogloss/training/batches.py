"""Which pairs are seen together at each step of training.

`corpora.balance` orders the pairs of an epoch; here the order is cut into batches. Pairs that share a source sentence
travel together, so the source is encoded once for all its translations. A step's batch is found by counting: a run that
was interrupted continues in the middle of an epoch with the batches it would have seen.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.config import BalanceSettings
from isogloss.corpora.balance import Sampler
from isogloss.types import BoolArray, IntArray


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

    def where(self, chosen: IntArray | BoolArray) -> "PairRows":
        """Some of the pairs, by number or by mask."""
        return PairRows(self.source[chosen], self.target[chosen], self.corpus[chosen], self.language[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Distinct sentences to encode, and for each pair the places of its two sides (and of negatives) among them.

    `group` is the row of each pair's source: pairs with the same one are translations of the same sentence.
    """

    rows: IntArray
    source_at: IntArray
    target_at: IntArray
    group: IntArray
    negative_at: IntArray
    negative_group: IntArray

    @classmethod
    def of(cls, pairs: PairRows, chosen: IntArray, negatives: IntArray | None = None, sources: bool = True) -> "Batch":
        """The chosen pairs as a batch. One that was drawn twice counts twice, and is encoded once.

        Without `sources` the student is not shown the source side: the places of the translations stand for it.
        """
        chosen = np.asarray(chosen)
        wrong = np.empty(0, dtype=np.int64) if negatives is None else negatives[chosen].ravel()  # as numbers of pairs
        group, target = np.asarray(pairs.source[chosen]), np.asarray(pairs.target[chosen])
        rows, places = np.unique(
            np.concatenate([group if sources else target, target, pairs.target[wrong]]), return_inverse=True
        )
        count = len(chosen)
        return cls(rows, places[:count], places[count : 2 * count], group, places[2 * count :], np.asarray(pairs.source[wrong]))


class Schedule:
    """The batches of a whole training, by the number of the step.

    A batch has `batch_pairs` pairs, or, if `tokens_of` (the tokens of each pair) and a budget are given, as many as fit into
    it. The last one of an epoch has what is left. One epoch's order is held at a time.
    """

    def __init__(
        self,
        pairs: PairRows,
        settings: BalanceSettings,
        seed: int,
        epochs: int,
        batch_pairs: int,
        batch_tokens: int = 0,
        tokens_of: IntArray | None = None,
    ) -> None:
        self._batch_pairs, self._batch_tokens, self._tokens_of = batch_pairs, batch_tokens, tokens_of
        self._sampler = Sampler(pairs.source, pairs.corpus, pairs.language, settings, seed)
        self._epoch, self._order, self._cuts = -1, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        lengths = np.array([self._sampler.pairs_in(epoch) for epoch in range(epochs)], dtype=np.int64)
        steps = -(-lengths // batch_pairs)
        if batch_tokens:
            steps = np.array([self._open(epoch) for epoch in range(epochs)], dtype=np.int64)
        self._pairs_until = np.concatenate([[0], np.cumsum(lengths)])
        self._steps_until = np.concatenate([[0], np.cumsum(steps)])

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
        if step >= self.steps:
            return self.pairs
        epoch = self._epoch_of(step)
        self._open(epoch)
        return int(self._pairs_until[epoch] + self._cuts[step - int(self._steps_until[epoch])])

    def chosen(self, step: int) -> IntArray:
        """The pairs of a step, as indices."""
        epoch = self._epoch_of(step)
        self._open(epoch)
        place = step - int(self._steps_until[epoch])
        return self._order[self._cuts[place] : self._cuts[place + 1]]

    def _epoch_of(self, step: int) -> int:
        return int(np.searchsorted(self._steps_until, step, side="right")) - 1

    def _open(self, epoch: int) -> int:
        """Hold this epoch's order and where its batches begin; returns how many there are."""
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._sampler.order(epoch)
            if self._tokens_of is not None and self._batch_tokens:
                self._cuts = cuts_by_tokens(self._tokens_of[self._order], self._batch_tokens)
            else:
                self._cuts = np.append(np.arange(0, len(self._order), self._batch_pairs), len(self._order))
        return len(self._cuts) - 1


def cuts_by_tokens(tokens: IntArray, budget: int) -> IntArray:
    """Where batches begin if each takes pairs until the next would not fit (one pair at least), and the end of the last."""
    until = np.cumsum(tokens)
    cuts = [0]
    while cuts[-1] < len(tokens):
        before = int(until[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(until, before + budget, side="right"))))
    return np.array(cuts, dtype=np.int64)

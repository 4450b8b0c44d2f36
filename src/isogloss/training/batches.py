"""Which pairs are in the batch of each training step.

`corpora/sampling` orders the pairs of an epoch, shard by shard if there are many; here the order is cut into batches. A step's
batch depends on its number alone, so an interrupted run continues in the middle of an epoch with the same batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.sharded import SHARD, ShardedSampler
from isogloss.types import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Pairs as row numbers into one list of distinct sentences, with the codes of their corpora and languages."""

    source: IntArray
    target: IntArray
    corpus: IntArray
    language: IntArray

    def __len__(self) -> int:
        return len(self.source)

    def where(self, chosen: IntArray | BoolArray) -> "PairRows":
        """The chosen pairs, by number or by mask."""
        return PairRows(self.source[chosen], self.target[chosen], self.corpus[chosen], self.language[chosen])


class Schedule:
    """The batches of a whole training, by step number.

    A batch has `batch_pairs` pairs, or, with `batch_tokens` and `tokens_of` (the tokens of given pairs), as many as fit into
    that budget, shard by shard. The last batch of an epoch (of a shard) has the rest. Two shards' orders are in memory at a
    time.
    """

    def __init__(
        self,
        pairs: PairRows,
        settings: BalanceSettings,
        seed: int,
        epochs: int,
        batch_pairs: int,
        batch_tokens: int = 0,
        tokens_of: Callable[[IntArray], IntArray] | None = None,
        left_out: IntArray | None = None,
        shard: int = SHARD,
    ) -> None:
        """`left_out` are pairs that are never drawn, by number, ascending; `shard` is how many are ordered at once."""
        self._batch_pairs, self._batch_tokens, self._tokens_of = batch_pairs, batch_tokens, tokens_of
        self._deal = ShardedSampler(pairs.source, pairs.corpus, pairs.language, settings, seed, left_out, shard)
        self._order = lru_cache(maxsize=2)(self._deal.order)
        self._cuts_of = lru_cache(maxsize=1)(self._cut_by_tokens)
        lengths = [self._deal.lengths(epoch) for epoch in range(epochs)]
        self._part_ends = [np.cumsum(of_parts) for of_parts in lengths]
        # A stretch is cut into batches on its own: an epoch, or with a budget of tokens a part of one.
        self._by_tokens = bool(batch_tokens) and tokens_of is not None
        self._parts = self._deal.shards if self._by_tokens else 1
        stretches = [length for of_parts in lengths for length in (of_parts if self._by_tokens else [of_parts.sum()])]
        steps = [
            len(self._cuts_of(n)) - 1 if self._by_tokens else -(-length // batch_pairs) for n, length in enumerate(stretches)
        ]
        self._pairs_until = np.concatenate([[0], np.cumsum(stretches)]).astype(np.int64)
        self._steps_until = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)

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
        stretch, begin, _ = self._find(step)
        return int(self._pairs_until[stretch]) + begin

    def examples(self, step: int) -> IntArray:
        """The pairs of a step, as indices."""
        stretch, begin, end = self._find(step)
        if self._by_tokens:
            return self._order(*divmod(stretch, self._parts))[begin:end]
        ends = self._part_ends[stretch]
        first, last = (int(np.searchsorted(ends, place, side="right")) for place in (begin, end - 1))
        starts = ends - np.diff(ends, prepend=0)
        taken = [
            self._order(stretch, part)[max(begin - int(starts[part]), 0) : end - int(starts[part])]
            for part in range(first, last + 1)
        ]
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _find(self, step: int) -> tuple[int, int, int]:
        """The stretch that a step is in, and where in it its batch begins and ends."""
        stretch = int(np.searchsorted(self._steps_until, step, side="right")) - 1
        place = step - int(self._steps_until[stretch])
        if self._by_tokens:
            cuts = self._cuts_of(stretch)
            return stretch, int(cuts[place]), int(cuts[place + 1])
        length = int(self._pairs_until[stretch + 1] - self._pairs_until[stretch])
        return stretch, place * self._batch_pairs, min((place + 1) * self._batch_pairs, length)

    def _cut_by_tokens(self, stretch: int) -> IntArray:
        """Where the batches of a part begin, by the budget of tokens."""
        assert self._tokens_of is not None
        return cuts_by_tokens(self._tokens_of(self._order(*divmod(stretch, self._parts))), self._batch_tokens)


def cuts_by_tokens(tokens: IntArray, budget: int) -> IntArray:
    """Where batches begin if each takes pairs until the next would not fit (one pair at least), and the end of the last."""
    until = np.cumsum(tokens)
    cuts = [0]
    while cuts[-1] < len(tokens):
        before = int(until[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(until, before + budget, side="right"))))
    return np.array(cuts, dtype=np.int64)

"""Which pairs are seen together, in which order.

Pairs that share a source sentence travel together, so the source is encoded once for all its translations. The order
depends on the seed and the epoch alone: a run that was interrupted continues in the middle of an epoch by counting.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Pairs as row numbers into one list of distinct sentences."""

    source: IntArray
    target: IntArray

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Distinct sentences to encode, and for each pair the places of its two sides among them."""

    rows: IntArray
    source_at: IntArray
    target_at: IntArray


def steps_per_epoch(pairs: PairRows, batch_pairs: int) -> int:
    """Number of batches that see every pair once."""
    return -(-len(pairs) // batch_pairs)


def batches_of_epoch(pairs: PairRows, batch_pairs: int, seed: int, epoch: int) -> list[Batch]:
    """Every pair once: source sentences in random order, each with its translations, cut into equal batches."""
    random = np.random.default_rng([seed, epoch])
    distinct, group = np.unique(pairs.source, return_inverse=True)
    place = random.permutation(len(distinct))[group]  # where in the shuffled order the pair's source stands
    order = np.lexsort((random.random(len(pairs)), place))
    return [_batch(pairs, order[start : start + batch_pairs]) for start in range(0, len(order), batch_pairs)]


def _batch(pairs: PairRows, chosen: IntArray) -> Batch:
    rows, places = np.unique(np.concatenate([pairs.source[chosen], pairs.target[chosen]]), return_inverse=True)
    return Batch(rows, places[: len(chosen)], places[len(chosen) :])

"""Batches: every pair once an epoch, a source with its translations together, the same order for the same seed."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isogloss.training.batches import PairRows, batches_of_epoch, steps_per_epoch


def some_pairs(sources: list[int]) -> PairRows:
    return PairRows(np.array(sources, dtype=np.int64), np.arange(len(sources), dtype=np.int64) + 1000)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=80), st.integers(1, 16), st.integers(0, 99), st.integers(0, 3))
def test_an_epoch_sees_every_pair_once(sources: list[int], size: int, seed: int, epoch: int) -> None:
    pairs = some_pairs(sources)
    batches = batches_of_epoch(pairs, size, seed, epoch)
    seen = Counter(
        (int(batch.rows[s]), int(batch.rows[t]))
        for batch in batches
        for s, t in zip(batch.source_at, batch.target_at, strict=True)
    )
    assert seen == Counter(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))
    assert len(batches) == steps_per_epoch(pairs, size)
    assert all(len(set(batch.rows.tolist())) == len(batch.rows) for batch in batches), "a sentence is encoded once a batch"


def test_a_source_with_many_translations_is_in_few_batches() -> None:
    pairs = some_pairs([source for source in range(20) for _ in range(12)])
    batches = batches_of_epoch(pairs, 24, 0, 0)
    assert all(len(np.unique(batch.rows[batch.source_at])) <= 3 for batch in batches)


def test_seed_and_epoch_decide_the_order() -> None:
    pairs = some_pairs(list(range(50)))

    def order(seed: int, epoch: int) -> list[int]:
        return [int(row) for batch in batches_of_epoch(pairs, 8, seed, epoch) for row in batch.rows[batch.target_at]]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) != order(2, 1)

"""Batches: an order cut to size, a sentence once a batch, and after a restart the batches that would have come."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.config import BalanceSettings
from isogloss.training.batches import Batch, PairRows, Schedule

BALANCES = [
    BalanceSettings(),
    BalanceSettings(scheme="corpora"),
    BalanceSettings(scheme="corpora", group="pair", pairs_per_epoch=50),
    BalanceSettings(scheme="languages", temperature=3.0, max_languages_per_group=2),
    BalanceSettings(scheme="datasets", cap_language=9),
    BalanceSettings(scheme="proportional", cap_corpus=7, cap_language=5),
]


def some_pairs(sources: list[int]) -> PairRows:
    number = np.arange(len(sources), dtype=np.int64)
    return PairRows(np.array(sources, dtype=np.int64), number + 1000, number % 3 // 2, number % 4)


def pairs_of(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.rows[batch.source_at].tolist(), batch.rows[batch.target_at].tolist(), strict=True))


sources_of_pairs = st.lists(st.integers(0, 9), min_size=1, max_size=80)


@given(sources_of_pairs, st.integers(1, 16), st.integers(0, 99), st.integers(1, 3))
def test_an_epoch_sees_every_pair_once(sources: list[int], size: int, seed: int, epochs: int) -> None:
    pairs = some_pairs(sources)
    schedule = Schedule(pairs, BalanceSettings(), seed, epochs, size)
    batches = [schedule.batch_at(step) for step in range(schedule.steps)]
    assert len(batches) == epochs * -(-len(pairs) // size)
    everything = Counter(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))
    for epoch in range(epochs):
        length = len(batches) // epochs
        assert (
            Counter(pair for batch in batches[epoch * length : (epoch + 1) * length] for pair in pairs_of(batch)) == everything
        )


@given(sources_of_pairs, st.sampled_from(BALANCES), st.integers(1, 16), st.integers(1, 4), st.data())
def test_after_a_restart_the_same_batches_come(
    sources: list[int], balance: BalanceSettings, size: int, epochs: int, data: st.DataObject
) -> None:
    pairs = some_pairs(sources)
    whole = Schedule(pairs, balance, 5, epochs, size)
    expected = [pairs_of(whole.batch_at(step)) for step in range(whole.steps)]
    stopped = data.draw(st.integers(0, whole.steps))
    continued = Schedule(pairs, balance, 5, epochs, size)
    assert [pairs_of(continued.batch_at(step)) for step in range(stopped, continued.steps)] == expected[stopped:]
    assert continued.pairs_before(stopped) == sum(map(len, expected[:stopped]))
    assert whole.pairs_before(whole.steps) == whole.pairs == sum(map(len, expected))
    assert all(1 <= len(batch) <= size for batch in expected)


@given(sources_of_pairs, st.sampled_from(BALANCES))
def test_a_sentence_is_encoded_once_a_batch(sources: list[int], balance: BalanceSettings) -> None:
    schedule = Schedule(some_pairs(sources), balance, 5, 2, 12)
    for step in range(schedule.steps):
        batch = schedule.batch_at(step)
        assert len(set(batch.rows.tolist())) == len(batch.rows)
        assert len(batch.source_at) == len(batch.target_at) == len(schedule.chosen(step))


def test_a_source_with_many_translations_is_in_few_batches() -> None:
    schedule = Schedule(some_pairs([source for source in range(20) for _ in range(12)]), BalanceSettings(), 0, 1, 24)
    for step in range(schedule.steps):
        batch = schedule.batch_at(step)
        assert len(np.unique(batch.rows[batch.source_at])) <= 3


@pytest.mark.parametrize("balance", BALANCES)
def test_seed_and_epoch_decide_the_order(balance: BalanceSettings) -> None:
    def order(seed: int) -> list[list[int]]:
        schedule = Schedule(some_pairs(list(range(60))), balance, seed, 2, 8)
        return [schedule.chosen(step).tolist() for step in range(schedule.steps)]

    one = order(1)
    assert one == order(1) != order(2)
    assert one[: len(one) // 2] != one[len(one) // 2 :]


def test_no_epochs_no_steps() -> None:
    schedule = Schedule(some_pairs([1, 2]), BalanceSettings(), 0, 0, 8)
    assert schedule.steps == schedule.pairs == schedule.pairs_before(0) == 0

"""Batches: an order cut to size, a sentence once a batch, and after a restart the batches that would have come."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config import BalanceSettings, LossSettings
from isogloss.corpora.sampling.sharded import ShardedSampler
from isogloss.losses.combined import CombinedLoss
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows, Schedule, cuts_by_tokens
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.training.tasks.protocol import SentenceBatch
from isogloss.types import IntArray

BALANCES = [
    BalanceSettings(),
    BalanceSettings(group="source"),
    BalanceSettings(scheme="corpora", group="source"),
    BalanceSettings(scheme="corpora", group="pair", pairs_per_epoch=50),
    BalanceSettings(scheme="languages", temperature=3.0, group="source", max_languages_per_group=2),
    BalanceSettings(scheme="datasets", cap_language=9),
    BalanceSettings(scheme="proportional", cap_corpus=7, cap_language=5),
]


def some_pairs(sources: list[int]) -> PairRows:
    number = np.arange(len(sources), dtype=np.int64)
    return PairRows(np.array(sources, dtype=np.int64), number + 1000, number % 3 // 2, number % 4)


def batch_of(
    pairs: PairRows, chosen: IntArray, negatives: IntArray | None = None, losses: CombinedLoss | None = None
) -> SentenceBatch:
    tokens = TokenStore(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64), 0)
    return DistillTask(TrainingInputs(tokens, pairs, None, negatives), losses or CombinedLoss(LossSettings())).prepare(chosen)


def batch_at(schedule: Schedule, pairs: PairRows, step: int) -> SentenceBatch:
    return batch_of(pairs, schedule.examples(step))


def pairs_of(batch: SentenceBatch) -> list[tuple[int, int]]:
    return list(zip(batch.rows[batch.at["source"]].tolist(), batch.rows[batch.at["target"]].tolist(), strict=True))


sources_of_pairs = st.lists(st.integers(0, 9), min_size=1, max_size=80)


@given(sources_of_pairs, st.integers(1, 16), st.integers(0, 99), st.integers(1, 3))
def test_an_epoch_sees_every_pair_once(sources: list[int], size: int, seed: int, epochs: int) -> None:
    pairs = some_pairs(sources)
    schedule = Schedule(pairs, BalanceSettings(), seed, epochs, size)
    batches = [batch_at(schedule, pairs, step) for step in range(schedule.steps)]
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
    expected = [pairs_of(batch_at(whole, pairs, step)) for step in range(whole.steps)]
    stopped = data.draw(st.integers(0, whole.steps))
    continued = Schedule(pairs, balance, 5, epochs, size)
    assert [pairs_of(batch_at(continued, pairs, step)) for step in range(stopped, continued.steps)] == expected[stopped:]
    assert continued.pairs_before(stopped) == sum(map(len, expected[:stopped]))
    assert whole.pairs_before(whole.steps) == whole.pairs == sum(map(len, expected))
    assert all(1 <= len(batch) <= size for batch in expected)


@given(sources_of_pairs, st.sampled_from(BALANCES))
def test_a_sentence_is_encoded_once_a_batch(sources: list[int], balance: BalanceSettings) -> None:
    pairs = some_pairs(sources)
    schedule = Schedule(pairs, balance, 5, 2, 12)
    for step in range(schedule.steps):
        batch = batch_at(schedule, pairs, step)
        assert len(set(batch.rows.tolist())) == len(batch.rows)
        assert len(batch.at["source"]) == len(batch.at["target"]) == len(schedule.examples(step))


def test_a_source_with_many_translations_is_in_few_batches() -> None:
    pairs = some_pairs([source for source in range(20) for _ in range(12)])
    schedule = Schedule(pairs, BalanceSettings(group="source"), 0, 1, 24)
    for step in range(schedule.steps):
        batch = batch_at(schedule, pairs, step)
        assert len(np.unique(batch.rows[batch.at["source"]])) <= 3


@pytest.mark.parametrize("balance", BALANCES)
def test_seed_and_epoch_decide_the_order(balance: BalanceSettings) -> None:
    def order(seed: int) -> list[list[int]]:
        schedule = Schedule(some_pairs(list(range(60))), balance, seed, 2, 8)
        return [schedule.examples(step).tolist() for step in range(schedule.steps)]

    one = order(1)
    assert one == order(1) != order(2)
    assert one[: len(one) // 2] != one[len(one) // 2 :]


def test_no_epochs_no_steps() -> None:
    schedule = Schedule(some_pairs([1, 2]), BalanceSettings(), 0, 0, 8)
    assert schedule.steps == schedule.pairs == schedule.pairs_before(0) == 0


# ── batches by tokens ───────────────────────────────────────────────────────────────────────────────────────────────────

token_counts = st.lists(st.integers(1, 40), min_size=1, max_size=80)


@given(token_counts, st.integers(1, 90))
def test_a_batch_takes_pairs_until_the_next_would_not_fit(tokens: list[int], budget: int) -> None:
    expected, held = [0], 0
    for place, count in enumerate(tokens):
        if held and held + count > budget:
            expected.append(place)
            held = 0
        held += count
    assert cuts_by_tokens(np.array(tokens), budget).tolist() == [*expected, len(tokens)]


@settings(deadline=None)
@given(token_counts, st.integers(1, 90), st.sampled_from(BALANCES), st.integers(1, 3), st.data())
def test_with_a_budget_of_tokens_nothing_is_lost_and_a_restart_finds_its_place(
    tokens: list[int], budget: int, balance: BalanceSettings, epochs: int, data: st.DataObject
) -> None:
    pairs, counts = some_pairs([place % 10 for place in range(len(tokens))]), np.array(tokens)

    def schedule() -> Schedule:
        return Schedule(pairs, balance, 5, epochs, 16, budget, counts.__getitem__)

    whole = schedule()
    seen = [whole.examples(step).tolist() for step in range(whole.steps)]
    assert all(counts[batch].sum() <= budget or len(batch) == 1 for batch in seen) and all(seen)
    unbudgeted = Schedule(pairs, balance, 5, epochs, 16)
    order = [pair for step in range(unbudgeted.steps) for pair in unbudgeted.examples(step).tolist()]
    assert [pair for batch in seen for pair in batch] == order, "the same pairs in the same order, cut elsewhere"
    stopped = data.draw(st.integers(0, whole.steps))
    continued = schedule()
    assert continued.pairs_before(stopped) == sum(map(len, seen[:stopped]))
    assert [continued.examples(step).tolist() for step in range(stopped, continued.steps)] == seen[stopped:]


@given(token_counts, st.integers(1, 90), st.integers(1, 3))
def test_with_a_budget_an_epoch_still_sees_every_pair_once(tokens: list[int], budget: int, epochs: int) -> None:
    pairs = some_pairs([place % 7 for place in range(len(tokens))])
    schedule = Schedule(pairs, BalanceSettings(), 3, epochs, 16, budget, np.array(tokens).__getitem__)
    seen = Counter(pair for step in range(schedule.steps) for pair in schedule.examples(step).tolist())
    assert seen == dict.fromkeys(range(len(pairs)), epochs)


# ── in shards ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None)
@given(sources_of_pairs, st.sampled_from(BALANCES), st.integers(1, 16), st.integers(4, 40), st.integers(1, 3), st.data())
def test_batches_go_on_from_shard_to_shard(
    sources: list[int], balance: BalanceSettings, size: int, shard: int, epochs: int, data: st.DataObject
) -> None:
    pairs = some_pairs(sources)
    left_out = np.array(sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1), max_size=len(pairs) - 1))), dtype=np.int64)

    def schedule() -> Schedule:
        return Schedule(pairs, balance, 5, epochs, size, left_out=left_out, shard=shard)

    whole, deal = schedule(), ShardedSampler(pairs.source, pairs.corpus, pairs.language, balance, 5, left_out, shard)
    expected: list[list[int]] = []
    for epoch in range(epochs):
        order = [pair for part in range(deal.shards) for pair in deal.order(epoch, part).tolist()]
        expected += [order[start : start + size] for start in range(0, len(order), size)]
    assert [whole.examples(step).tolist() for step in range(whole.steps)] == expected
    assert whole.pairs == sum(map(len, expected)) and not set(left_out.tolist()) & {
        pair for batch in expected for pair in batch
    }
    stopped = data.draw(st.integers(0, whole.steps))
    continued = schedule()
    assert continued.pairs_before(stopped) == sum(map(len, expected[:stopped]))
    assert [continued.examples(step).tolist() for step in range(stopped, continued.steps)] == expected[stopped:]


@settings(deadline=None)
@given(token_counts, st.integers(1, 90), st.sampled_from(BALANCES), st.integers(4, 40), st.data())
def test_with_a_budget_of_tokens_shards_are_cut_one_by_one(
    tokens: list[int], budget: int, balance: BalanceSettings, shard: int, data: st.DataObject
) -> None:
    pairs, counts = some_pairs([place % 10 for place in range(len(tokens))]), np.array(tokens)

    def schedule() -> Schedule:
        return Schedule(pairs, balance, 5, 2, 16, budget, counts.__getitem__, shard=shard)

    deal = ShardedSampler(pairs.source, pairs.corpus, pairs.language, balance, 5, None, shard)
    expected: list[list[int]] = []
    for epoch in range(2):
        for part in range(deal.shards):
            order = deal.order(epoch, part)
            cuts = cuts_by_tokens(counts[order], budget).tolist()
            expected += [order[start:stop].tolist() for start, stop in pairwise(cuts)]
    whole = schedule()
    assert [whole.examples(step).tolist() for step in range(whole.steps)] == expected
    stopped = data.draw(st.integers(0, whole.steps))
    continued = schedule()
    assert continued.pairs_before(stopped) == sum(map(len, expected[:stopped]))
    assert [continued.examples(step).tolist() for step in range(stopped, continued.steps)] == expected[stopped:]


def test_the_next_batch_opens_no_shard_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, int]] = []
    order = ShardedSampler.order

    def counting(self: ShardedSampler, epoch: int, part: int) -> IntArray:
        opened.append((epoch, part))
        return order(self, epoch, part)

    monkeypatch.setattr(ShardedSampler, "order", counting)
    schedule = Schedule(some_pairs(list(range(1000))), BalanceSettings(), 5, 2, 16, shard=100)
    assert not opened
    for step in range(schedule.pairs // 4 // 16, schedule.steps):  # from the middle of the first epoch
        schedule.examples(step)
    assert opened == [*((0, part) for part in range(4, 10)), *((1, part) for part in range(10))]


# ── what a batch holds beside its pairs ─────────────────────────────────────────────────────────────────────────────────


@given(sources_of_pairs, st.integers(1, 3), st.data())
def test_negatives_travel_with_their_pairs(sources: list[int], each: int, data: st.DataObject) -> None:
    pairs = some_pairs(sources)
    numbers = st.lists(st.integers(0, len(pairs) - 1), min_size=each, max_size=each)
    negatives = np.array([data.draw(numbers) for _ in sources])
    chosen = np.array(data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=9)))
    batch = batch_of(pairs, chosen, negatives)
    wrong = [number for pair in chosen for number in negatives[pair]]
    assert batch.rows[batch.at["negatives"]].ravel().tolist() == [pairs.target[number] for number in wrong]
    assert batch.values["negative_group"].ravel().tolist() == [pairs.source[number] for number in wrong]
    assert batch.values["negative_target_group"].ravel().tolist() == [pairs.target[number] for number in wrong]
    assert pairs_of(batch) == [(pairs.source[pair], pairs.target[pair]) for pair in chosen]


@given(sources_of_pairs)
def test_without_sources_only_translations_are_encoded(sources: list[int]) -> None:
    pairs = some_pairs(sources)
    batch = batch_of(pairs, np.arange(len(pairs)), losses=CombinedLoss(LossSettings(mse=0.0, moving_teacher=1.0)))
    assert batch.rows.tolist() == sorted(pairs.target.tolist())
    assert batch.rows[batch.at["source"]].tolist() == batch.rows[batch.at["target"]].tolist() == pairs.target.tolist()
    assert batch.values["group"].tolist() == sources
    assert batch.values["target_group"].tolist() == pairs.target.tolist()


def test_the_share_of_a_process_without_pairs_is_empty() -> None:
    batch = batch_of(some_pairs([1, 2]), np.zeros(0, dtype=np.int64), np.zeros((2, 3), dtype=np.int64))
    assert [len(part) for part in (batch.rows, batch.at["source"], batch.values["group"], batch.at["negatives"])] == [
        0,
        0,
        0,
        0,
    ]

"""Shards: what an epoch promises holds for all of them together, and each has the composition of the whole."""

import errno
import io
import tempfile
import tracemalloc
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.sampling.test_balance import Rows, columns, some_rows, some_settings
from isogloss.config import BalanceSettings
from isogloss.corpora.sampling import sharded as dealing
from isogloss.corpora.sampling.balance import Sampler
from isogloss.corpora.sampling.sharded import ShardedSampler
from isogloss.corpora.sampling.shares import Allotment, rates_of, strata_of
from isogloss.errors import IsoglossError
from isogloss.types import IntArray

SCHEMES = ["everything", "corpora", "languages", "datasets", "proportional"]


def deal(rows: Rows, balance: BalanceSettings, shard: int, left_out: list[int] | None = None, seed: int = 17) -> ShardedSampler:
    return ShardedSampler(
        *columns(rows), balance, seed, None if left_out is None else np.array(left_out, dtype=np.int64), shard
    )


def epoch_of(dealt: ShardedSampler, epoch: int) -> list[int]:
    return [pair for part in range(dealt.shards) for pair in dealt.order(epoch, part).tolist()]


def many_rows(sizes: dict[tuple[int, int], int], sources: int) -> Rows:
    """Pairs of corpora in languages, in random order."""
    random = np.random.default_rng(3)
    rows = [(int(random.integers(sources)), *cell) for cell, size in sizes.items() for _ in range(size)]
    return [rows[place] for place in random.permutation(len(rows))]


@given(some_rows, some_settings(), st.integers(1, 70), st.integers(0, 3), st.data())
@settings(max_examples=100, deadline=None)
def test_every_epoch_draws_from_each_stratum_what_is_allotted_to_it(
    rows: Rows, balance: BalanceSettings, shard: int, epoch: int, data: st.DataObject
) -> None:
    left_out = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dealing, "AT_ONCE", data.draw(st.integers(1, 20)))
        dealt = deal(rows, balance, shard, left_out)
        order = epoch_of(dealt, epoch)
    assert dealt.shards == -(-(len(rows) - len(left_out)) // shard)
    assert [len(dealt.order(epoch, part)) for part in range(dealt.shards)] == dealt.lengths(epoch).tolist()
    kept = [place for place in range(len(rows)) if place not in left_out]
    assert set(order) <= set(kept)
    corpus, language = (column[kept] for column in columns(rows)[1:])
    strata = strata_of(corpus, language, balance)
    of_pair = np.zeros(len(rows), dtype=np.int64)
    of_pair[kept] = strata.of_pair
    drawn = np.bincount(of_pair[order], minlength=len(strata))
    assert drawn.tolist() == Allotment(strata, balance).counts(epoch).tolist(), "so caps and lengths are those of the whole"


def test_where_pairs_were_dealt_to_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(pairs: int) -> int:
        source, alike = np.arange(pairs), np.zeros(pairs, dtype=np.int64)
        tracemalloc.start()
        dealt = ShardedSampler(source, alike, alike, BalanceSettings(), 17, shard=1_000)
        assert len(dealt.order(0, 3)) == dealt.lengths(0)[3]
        now, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return now

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dealing, "AT_ONCE", 1_000)
    assert held(200_000) < held(20_000) + 90_000  # half a byte a pair; numbers of shards are two
    assert not list(tmp_path.iterdir()), "the file goes when nobody reads it any more"


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dealing, "TemporaryFile", lambda **_: Full())
    with pytest.raises(IsoglossError, match="no space left") as refused:
        deal([(place, 0, 0) for place in range(50)], BalanceSettings(), 10)
    assert str(tmp_path) in refused.value.message


@given(some_rows, some_settings(), st.integers(0, 3), st.data())
def test_one_shard_is_what_the_sampler_gives(rows: Rows, balance: BalanceSettings, epoch: int, data: st.DataObject) -> None:
    assert epoch_of(deal(rows, balance, len(rows)), epoch) == Sampler(*columns(rows), balance, 17).order(epoch).tolist()
    left_out = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1)))
    kept = np.delete(np.arange(len(rows)), left_out)
    expected = kept[Sampler(*columns([rows[pair] for pair in kept]), balance, 17).order(epoch)]
    assert epoch_of(deal(rows, balance, len(rows), left_out), epoch) == expected.tolist()


@given(some_rows, some_settings(), st.integers(5, 40), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_over_epochs_no_pair_is_far_ahead_of_another_of_its_stratum(
    rows: Rows, balance: BalanceSettings, shard: int, epochs: int
) -> None:
    dealt = deal(rows, balance, shard)
    strata = strata_of(*columns(rows)[1:], balance)
    seen = np.zeros(len(rows), dtype=np.int64)
    for epoch in range(epochs):
        seen += np.bincount(epoch_of(dealt, epoch), minlength=len(rows))
    for number in range(len(strata)):
        times = seen[strata.of_pair == number]
        passes = times.sum() / len(times)
        # In a shard all come once before one comes twice; a shard with a single pair of it may round up or down by one.
        assert times.max() <= np.ceil(passes) + 2 and times.min() >= np.floor(passes) - 2


@given(some_rows, some_settings(), st.integers(5, 40))
def test_an_order_needs_nothing_that_was_drawn_before(rows: Rows, balance: BalanceSettings, shard: int) -> None:
    whole = deal(rows, balance, shard)
    expected = [[whole.order(epoch, part).tolist() for part in range(whole.shards)] for epoch in range(3)]
    other = deal(rows, balance, shard)
    last = other.shards - 1
    assert other.order(2, last).tolist() == expected[2][last] and other.order(1, 0).tolist() == expected[1][0]


@pytest.mark.parametrize("scheme", ["everything", "proportional"])
@pytest.mark.parametrize("group", ["source", "pair"])
def test_by_size_an_epoch_is_every_pair_once_in_another_order_each_time(scheme: str, group: str) -> None:
    rows = many_rows({(0, 0): 500, (0, 1): 300, (1, 0): 200, (2, 2): 9}, 150)
    balance = BalanceSettings(scheme=scheme, group=group)  # type: ignore[arg-type]
    dealt = deal(rows, balance, 128)
    orders = [epoch_of(dealt, epoch) for epoch in range(3)]
    assert dealt.shards == 8 and all(sorted(order) == list(range(len(rows))) for order in orders)
    firsts = [dealt.order(epoch, 0).tolist() for epoch in range(6)]
    assert len({tuple(sorted(first)) for first in firsts}) > 1, "another shard comes first"
    assert orders[0] != orders[1] != orders[2]
    assert epoch_of(deal(rows, balance, 128, seed=18), 0) != orders[0]


def test_pairs_of_a_shard_come_from_everywhere_and_neighbors_are_apart() -> None:
    rows = [(source, 0, 0) for source in range(4000)]
    dealt = deal(rows, BalanceSettings(), 500)
    shards = [sorted(dealt.order(0, part).tolist()) for part in range(dealt.shards)]
    assert {len(shard) for shard in shards} == {500}
    gaps = [after - before for shard in shards for before, after in pairwise(shard)]
    assert len(set(gaps)) > 8 and max(gaps) < 16, "one of every eight, now this one, now that one"


# ── composition ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["corpora", "datasets"])
def test_small_corpora_are_in_every_window_through_all_shards(scheme: str) -> None:
    sizes = {(0, 0): 3001, (1, 0): 1507, (2, 0): 40, (3, 0): 3}  # shards are not quite alike
    rows = many_rows(sizes, 4000)
    dealt = deal(rows, BalanceSettings(scheme=scheme), 400)  # type: ignore[arg-type]
    for epoch in range(2):
        order = epoch_of(dealt, epoch)
        for start in range(0, len(order) - 64, 7):
            drawn = Counter(rows[pair][1] for pair in order[start : start + 64])
            assert max(drawn[part] for part in range(4)) - min(drawn[part] for part in range(4)) <= 1 + dealing_slack(dealt)
    seen = Counter(pair for epoch in range(2) for pair in epoch_of(dealt, epoch))
    for corpus in (2, 3):  # their passes go on from shard to shard: no pair is two draws ahead of another
        times = [seen[pair] for pair, row in enumerate(rows) if row[1] == corpus]
        assert max(times) - min(times) <= 1


def dealing_slack(dealt: ShardedSampler) -> int:
    """At the end of a shard some have a draw left and others have not: a few draws, once for each window."""
    assert dealt.shards > 8
    return 3


@pytest.mark.parametrize("group", ["source", "pair"])
@pytest.mark.parametrize("scheme", ["proportional", "languages"])
def test_every_shard_has_the_composition_of_the_whole(scheme: str, group: str) -> None:
    sizes = {(0, 0): 6000, (0, 1): 3000, (1, 1): 1500, (1, 2): 1500}
    rows = many_rows(sizes, 8000)
    balance = BalanceSettings(scheme=scheme, group=group, temperature=3.0, pairs_per_epoch=9000)  # type: ignore[arg-type]
    dealt = deal(rows, balance, 2000)
    strata = strata_of(*columns(rows)[1:], balance)
    rates = rates_of(strata, balance)
    for part in range(dealt.shards):
        drawn = np.bincount(strata.of_pair[dealt.order(1, part)], minlength=len(strata))
        expected = rates * drawn.sum() / rates.sum()
        slack = 3 if group == "pair" else 5 * np.sqrt(expected)  # by chance, where a hash of the source decides
        assert (np.abs(drawn - expected) <= slack).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_translations_of_a_source_are_dealt_and_drawn_together(scheme: str) -> None:
    rows = [(source, 0, language) for language in range(4) for source in range(400)]
    dealt = deal(rows, BalanceSettings(scheme=scheme, temperature=1.0, group="source"), 250)  # type: ignore[arg-type]
    order = epoch_of(dealt, 1)
    assert dealt.shards == 7 and sorted(order) == list(range(len(rows)))
    assert [len(list(group)) for _, group in groupby(order, key=lambda pair: rows[pair][0])] == [4] * 400


def test_a_cap_shows_another_slice_each_epoch_until_all_were_seen() -> None:
    rows = many_rows({(0, 0): 4000, (1, 0): 50}, 4000)
    dealt = deal(rows, BalanceSettings(cap_corpus=1000), 300)
    seen: list[int] = []
    for epoch in range(4):
        order = [pair for pair in epoch_of(dealt, epoch) if rows[pair][1] == 0]
        assert len(order) == 1000
        seen += order
    assert len(set(seen)) == 4000


def test_a_byte_a_pair_is_what_is_held() -> None:
    source = np.arange(100_000)
    dealt = ShardedSampler(source, np.zeros_like(source), np.zeros_like(source), BalanceSettings(), 1, None, 1000)
    kept: dict[str, IntArray] = {name: one for name, one in vars(dealt).items() if isinstance(one, np.ndarray)}
    assert dealt.shards == 100 and sum(one.nbytes for one in kept.values()) < 102_000

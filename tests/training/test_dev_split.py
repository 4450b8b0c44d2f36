"""Dev pairs against a loop that takes one source after the other, and what is promised whatever the pairs are."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.corpora.text.hashing import mix
from isogloss.training import dev_split as holdout
from isogloss.training.dev_split import MOST_TRANSLATIONS, hold_out
from isogloss.types import BoolArray, IntArray

Rows = list[tuple[int, int, bool]]  # source, language, whether its target is the source itself


def random_rows(size: int, sources: int, languages: int, seed: int) -> Rows:
    """Languages of very different sizes; one row in twenty is source text."""
    random = np.random.default_rng(seed)
    language = np.floor(languages * random.random(size) ** 2).astype(int)
    return list(
        zip(random.integers(0, sources, size).tolist(), language.tolist(), (random.random(size) < 0.05).tolist(), strict=True)
    )


some_rows = st.builds(random_rows, st.integers(0, 150), st.integers(1, 60), st.integers(1, 5), st.integers(0, 10**6))
some_share = st.floats(0, 1)
some_number = st.integers(0, 30)


def columns(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    """Source, target and language; every translation is a sentence of its own."""
    source, language, itself = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return source, np.where(itself == 1, source, 1000 + np.arange(len(rows))), language


def held(rows: Rows, per_language: int, share: float, seed: int = 17) -> BoolArray:
    source, target, language = columns(rows)
    keys = mix(np.arange(source.max(initial=0) + 1, dtype=np.uint64))
    mask = np.zeros(len(rows), dtype=np.bool_)
    mask[hold_out(source, target, language, keys, per_language, share, seed)] = True
    return mask


def held_by_a_loop(rows: Rows, per_language: int, share: float, seed: int) -> list[bool]:
    """The module's rule, one source at a time."""
    salt = int(mix(np.array([seed], dtype=np.uint64))[0])
    place = {s: int(mix(mix(np.array([s], dtype=np.uint64)) ^ np.uint64(salt))[0]) for s, _, _ in rows}
    translations = [(source, language) for source, language, itself in rows if not itself]
    size = {code: sum(language == code for _, language in translations) for _, code in translations}
    most = {code: int(share * number) for code, number in size.items()}
    alone = {source for source, _, itself in rows if itself}
    alone |= {pair[0] for pair in translations if translations.count(pair) > MOST_TRANSLATIONS}
    chosen: set[int] = set()
    count = dict.fromkeys(size, 0)
    for code in sorted(size, key=lambda code: (size[code], code)):
        wanted = min(per_language, most[code])
        for source in sorted({s for s, language in translations if language == code}, key=place.__getitem__):
            brings = {one: translations.count((source, one)) for one in size}
            limits = {one: wanted if one == code else most[one] for one in size}
            if (
                source not in alone | chosen
                and count[code] < wanted
                and all(count[one] + brings[one] <= limits[one] for one in size if brings[one])
            ):
                chosen.add(source)
                count = {one: count[one] + brings[one] for one in size}
    return [source in chosen for source, _, _ in rows]


@given(some_rows, some_number, some_share, st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_it_takes_what_a_loop_over_sources_takes(rows: Rows, per_language: int, share: float, seed: int) -> None:
    mask = held(rows, per_language, share, seed)
    assert mask.tolist() == held_by_a_loop(rows, per_language, share, seed)


@given(some_rows, some_number, some_share, st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_few_candidates_give_what_all_sources_would(
    rows: Rows, per_language: int, share: float, seed: int, at_once: int, to_spare: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdout, "AT_ONCE", at_once)
        patch.setattr(holdout, "TIMES", 0)
        patch.setattr(holdout, "TO_SPARE", to_spare)  # fewer than it wants: it has to ask again and again
        mask = held(rows, per_language, share, seed)
    assert mask.tolist() == held_by_a_loop(rows, per_language, share, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_language_does_not_choose_among_the_candidates_of_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sources of the larger language may be taken, and half of those are all candidates of the smaller one."""
    monkeypatch.setattr(holdout, "TIMES", 0)
    monkeypatch.setattr(holdout, "TO_SPARE", 30)
    rows = [(source, 0, False) for source in range(600)] + [(source, 0, True) for source in range(600) if source % 20]
    rows += [(source, 1, False) for source in (*range(0, 600, 40), *range(600, 615))]
    assert held(rows, 6, 0.9, seed).tolist() == held_by_a_loop(rows, 6, 0.9, seed)


def pairs_looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs of candidates there are, each time that it is chosen among them."""
    looked_at: list[int] = []
    choose = holdout._Candidates.choose

    def counting(self: holdout._Candidates, *limits: Any) -> tuple[BoolArray, list[int]]:  # noqa: ANN401
        looked_at.append(int((~self.itself).sum()))
        return choose(self, *limits)

    monkeypatch.setattr(holdout._Candidates, "choose", counting)
    return looked_at


def test_of_many_pairs_only_candidates_are_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large language, and a small one on sources of the large one: few of the large one's sources are looked at."""
    rows = [(source, 0, False) for source in range(30_000)] + [(source, 1, False) for source in range(0, 30_000, 300)]
    looked_at = pairs_looked_at(monkeypatch)
    mask = held(rows, 50, 0.1)
    assert np.bincount(columns(rows)[2][mask]).tolist() == [50, 10]
    assert max(looked_at) < 1000


def test_where_sources_do_not_fit_the_search_ends_and_promises_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source has two pairs, so an odd number cannot be had: nobody should look at all sources for that."""
    rows = [(source, 0, False) for source in range(20_000) for _ in range(2)]
    monkeypatch.setattr(holdout, "MOST_CANDIDATES", 4000)
    looked_at = pairs_looked_at(monkeypatch)
    mask = held(rows, 101, 0.1)
    assert mask.sum() == 100 and (mask[::2] == mask[1::2]).all()
    assert len(looked_at) > 1 and max(looked_at) <= 4000


def test_where_all_pairs_may_be_candidates_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(source, 0, False) for source in range(2000) for _ in range(2)]
    for most in (len(rows), len(rows) - 1):
        monkeypatch.setattr(holdout, "MOST_CANDIDATES", most)
        looked_at = pairs_looked_at(monkeypatch)
        assert held(rows, 101, 0.1).sum() == 100
        assert (max(looked_at) == len(rows)) == (most == len(rows))


@given(some_rows, some_number, some_share)
@settings(max_examples=100, deadline=None)
def test_promises(rows: Rows, per_language: int, share: float) -> None:
    mask = held(rows, per_language, share)
    source, target, language = columns(rows)
    assert not mask[source == target].any()
    dev = set(source[mask].tolist())
    assert all(mask[row] == (one in dev) for row, one in enumerate(source.tolist())), "all pairs of a dev source are dev"
    for code in np.unique(language):
        pairs = (language == code) & (source != target)
        assert mask[pairs].sum() <= share * pairs.sum()


@given(some_rows, some_number, some_share, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_does_not_matter(rows: Rows, per_language: int, share: float, random: Random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = held([rows[row] for row in order], per_language, share)
    assert shuffled.tolist() == held(rows, per_language, share)[order].tolist()


def test_sources_of_their_own_give_each_language_exactly_what_it_wants() -> None:
    rows = [(1000 * code + number, code, False) for code, size in enumerate((500, 100, 9, 3000)) for number in range(size)]
    mask = held(rows, 40, 0.1)
    assert np.bincount(columns(rows)[2][mask], minlength=4).tolist() == [40, 10, 0, 40]


def test_languages_that_share_their_sources_share_their_dev_sources() -> None:
    rows = [(source, code, False) for source in range(5000) for code in range(6)]
    mask = held(rows, 1500, 0.9)  # more than is looked at together
    assert mask.sum() == 6 * 1500 and len(set(columns(rows)[0][mask].tolist())) == 1500


def test_a_large_language_takes_what_small_ones_took_with_them_for_its_own() -> None:
    small = [(source, 1, False) for source in range(1000)]
    rows = small + [(source, 0, False) for source in range(20_000)]
    counts = np.bincount(columns(rows)[2][held(rows, 100, 0.05)])
    assert counts.tolist() == [100, 50]


def test_small_languages_may_give_a_large_one_more_than_it_wants_but_not_more_than_its_share() -> None:
    rows = [(source, 0, False) for source in range(1000)]
    rows += [(source, 1 + source // 100, False) for source in range(1000)]
    counts = np.bincount(columns(rows)[2][held(rows, 8, 0.05)])
    assert counts[0] == 50 and counts[1:].max() == 5 and sorted(counts[1:]) == [5] * 10
    tight = [*rows, *((source, 11, False) for source in range(900, 1000))]
    assert np.bincount(columns(tight)[2][held(tight, 8, 0.05)])[0] <= 50


def test_a_source_with_very_many_translations_does_not_fill_a_dev_set() -> None:
    for times, others in ((9, range(1, 12)), (8, range(12))):
        rows = [(0, 0, False)] * times + [(source, 0, False) for source in range(1, 12)]
        chosen = {source for seed in range(40) for source in columns(rows)[0][held(rows, 10, 0.9, seed)].tolist()}
        assert chosen == set(others)


def test_another_seed_holds_out_others_and_every_source_has_its_chance() -> None:
    rows = [(source, 0, False) for source in range(200)]
    masks = np.array([held(rows, 20, 0.5, seed) for seed in range(300)])
    times = masks.sum(axis=0)  # 300 draws of a tenth: 30, with a deviation of 5.2
    assert (masks.sum(axis=1) == 20).all() and times.min() > 8 and times.max() < 56


def test_equal_keys_stay_together() -> None:
    source, language = np.arange(100), np.zeros(100, dtype=np.int64)
    numbers = hold_out(source, source + 1000, language, (source // 2).astype(np.uint64), 10, 0.5, 3)
    assert len(numbers) == 10 and (numbers[::2] % 2 == 0).all() and (numbers[1::2] == numbers[::2] + 1).all()


@pytest.mark.parametrize("rows", [[], [(0, 3, True), (1, 0, True)]])
def test_nothing_to_hold_out(rows: Rows) -> None:
    assert held(rows, 10, 0.5).tolist() == [False] * len(rows)

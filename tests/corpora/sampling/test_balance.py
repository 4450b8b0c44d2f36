"""Samplers: nothing invented, nothing twice before all once, what belongs together together, the same after a restart."""

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.balance import Sampler
from isogloss.corpora.sampling.shares import plan, strata_of
from isogloss.errors import RecipeError
from isogloss.types import Bitext, IntArray, Pair

Rows = list[tuple[int, int, int]]  # source, corpus, language

some_rows = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=70)
some_cap = st.one_of(st.just(0), st.integers(1, 20))


@st.composite
def some_settings(draw: Any) -> BalanceSettings:  # noqa: ANN401 - hypothesis gives a function
    """Any settings that are allowed."""
    scheme = draw(st.sampled_from(["everything", "corpora", "languages", "datasets", "proportional"]))
    group = draw(st.sampled_from(["source", "pair"]))
    return BalanceSettings(
        scheme=scheme,
        group=group,
        temperature=draw(st.floats(1, 20)),
        max_languages_per_group=draw(st.integers(0, 3)) if group == "source" else 0,
        cap_corpus=draw(some_cap),
        cap_language=draw(some_cap),
        cap_corpus_language=draw(some_cap),
        pairs_per_epoch=0 if scheme == "everything" else draw(st.one_of(st.just(0), st.integers(1, 150))),
    )


def sampler(rows: Rows, balance: BalanceSettings, seed: int = 17) -> Sampler:
    return Sampler(*columns(rows), balance, seed)


def columns(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    source, corpus, language = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return source, corpus, language


def runs(keys: list[Any]) -> list[tuple[Any, int]]:
    """Neighbors that are equal: the value, and how many there are."""
    return [(key, len(list(group))) for key, group in groupby(keys)]


@given(some_rows, some_settings(), st.integers(0, 99), st.integers(1, 5))
@settings(max_examples=150)
def test_nothing_is_invented_and_nothing_comes_twice_before_all_came_once(
    rows: Rows, balance: BalanceSettings, seed: int, epochs: int
) -> None:
    draws = sampler(rows, balance, seed)
    _, corpus, language = columns(rows)
    stratum = strata_of(corpus, language, balance).of_pair
    seen = np.zeros(len(rows), dtype=np.int64)
    for epoch in range(epochs):
        order = draws.order(epoch)
        assert len(order) == draws.pairs_in(epoch)
        seen += np.bincount(order, minlength=len(rows))  # refuses what is below 0; more than the rows would not fit
        for number in np.unique(stratum):
            assert np.ptp(seen[stratum == number]) <= 1


@given(some_rows, some_settings())
@example(
    [(0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 1, 1)],
    BalanceSettings(scheme="languages", temperature=2.0, cap_corpus=1, group="source"),
)
@settings(max_examples=60, deadline=None)  # a low cap takes many epochs
def test_caps_hold_and_all_are_seen_over_enough_epochs(rows: Rows, balance: BalanceSettings) -> None:
    draws = sampler(rows, balance)
    unseen = set(range(len(rows)))
    for epoch in range(3000):
        order = draws.order(epoch).tolist()
        unseen -= set(order)
        for column, cap in (([1], balance.cap_corpus), ([2], balance.cap_language), ([1, 2], balance.cap_corpus_language)):
            drawn = Counter(tuple(rows[pair][place] for place in column) for pair in order)
            assert not cap or max(drawn.values(), default=0) <= cap
        if not unseen:
            break
    assert not unseen


@given(some_rows, some_settings(), st.integers(0, 4))
def test_the_same_seed_gives_the_same_order_at_once_and_step_by_step(rows: Rows, balance: BalanceSettings, epoch: int) -> None:
    one, other = sampler(rows, balance), sampler(rows, balance)
    for earlier in range(epoch):
        one.order(earlier)
    assert one.order(epoch).tolist() == other.order(epoch).tolist()


@pytest.mark.parametrize("scheme", ["everything", "corpora", "languages", "datasets", "proportional"])
@pytest.mark.parametrize("group", ["source", "pair"])
def test_another_seed_or_epoch_gives_another_order(scheme: str, group: str) -> None:
    rows = [(source, source % 3, language) for source in range(40) for language in range(2)]
    balance = BalanceSettings(scheme=scheme, group=group)  # type: ignore[arg-type]
    orders = [sampler(rows, balance, seed).order(epoch).tolist() for seed, epoch in ((1, 0), (2, 0), (1, 1))]
    assert orders[0] != orders[1] and orders[0] != orders[2] and orders[1] != orders[2]


@given(some_rows, st.sampled_from(["everything", "proportional"]), st.sampled_from(["source", "pair"]), st.integers(0, 3))
def test_by_size_an_epoch_is_a_permutation(rows: Rows, scheme: str, group: str, most: int) -> None:
    most = most if group == "source" else 0
    draws = sampler(rows, BalanceSettings(scheme=scheme, group=group, max_languages_per_group=most))  # type: ignore[arg-type]
    for epoch in range(3):
        assert sorted(draws.order(epoch).tolist()) == list(range(len(rows)))


def test_the_plain_order_is_the_one_that_gave_the_published_weights() -> None:
    """Drawn by the first version of the sampler; if this changes, so do the weights of the quickstart."""
    rows = [(source, source % 2, language) for source in (4, 1, 7, 2, 0) for language in range(3)]
    assert sampler(rows, BalanceSettings(group="source"), seed=17).order(0).tolist() == [
        3,
        4,
        5,
        1,
        0,
        2,
        9,
        11,
        10,
        6,
        7,
        8,
        12,
        13,
        14,
    ]


# ── composition of batches ──────────────────────────────────────────────────────────────────────────────────────────────


@given(some_rows, st.integers(1, 40), st.integers(0, 3), st.sampled_from(["corpora", "datasets"]), st.integers(0, 150))
def test_every_window_has_the_same_number_from_each_corpus(
    rows: Rows, window: int, epoch: int, scheme: str, length: int
) -> None:
    order = sampler(rows, BalanceSettings(scheme=scheme, group="pair", pairs_per_epoch=length)).order(epoch).tolist()  # type: ignore[arg-type]
    place = slice(1, 2) if scheme == "corpora" else slice(1, 3)
    parts = {row[place] for row in rows}
    for start in range(max(len(order) - window, 0) + 1):
        drawn = Counter(rows[pair][place] for pair in order[start : start + window])
        assert max(drawn[part] for part in parts) - min(drawn[part] for part in parts) <= 1


@given(some_rows, st.integers(1, 40), st.integers(0, 3))
def test_with_groups_corpora_are_equal_but_for_a_group_at_each_end(rows: Rows, window: int, epoch: int) -> None:
    order = sampler(rows, BalanceSettings(scheme="corpora", group="source")).order(epoch).tolist()
    largest = max(Counter(row[:2] for row in rows).values())
    corpora = {row[1] for row in rows}
    for start in range(max(len(order) - window, 0) + 1):
        drawn = Counter(rows[pair][1] for pair in order[start : start + window])
        assert max(drawn[part] for part in corpora) - min(drawn[part] for part in corpora) <= 2 * largest + 1


@given(some_rows, st.floats(1, 20), st.integers(0, 3), st.sampled_from(["languages", "proportional"]))
def test_shares_hold_from_the_first_pair_to_the_last(rows: Rows, temperature: float, epoch: int, scheme: str) -> None:
    balance = BalanceSettings(scheme=scheme, temperature=temperature, group="pair")  # type: ignore[arg-type]
    order = sampler(rows, balance).order(epoch)
    stratum = strata_of(*columns(rows)[1:], balance).of_pair
    strata = int(stratum.max()) + 1
    total = np.bincount(stratum[order], minlength=strata)
    for length in range(len(order) + 1):
        drawn = np.bincount(stratum[order[:length]], minlength=strata)
        share = total / len(order)
        assert (np.abs(drawn - length * share) <= 1 + strata * share + 1e-9).all()


@given(some_rows, st.floats(1, 50), st.integers(0, 200))
def test_languages_are_drawn_by_temperature(rows: Rows, temperature: float, length: int) -> None:
    balance = BalanceSettings(scheme="languages", temperature=temperature, pairs_per_epoch=length, group="source")
    order = sampler(rows, balance).order(0).tolist()
    sizes = Counter(row[2] for row in rows)
    corpora = {language: len({row[1] for row in rows if row[2] == language}) for language in sizes}
    drawn = Counter(rows[pair][2] for pair in order)
    weight = sum(size ** (1 / temperature) for size in sizes.values())
    assert len(order) == (length or len(rows))
    for language, size in sizes.items():
        expected = len(order) * size ** (1 / temperature) / weight
        assert abs(drawn[language] - expected) <= corpora[language] + 1e-6, "rounding, once for each corpus"


def test_a_small_corpus_is_spread_over_the_whole_epoch() -> None:
    rows = [(source, int(source >= 900), 0) for source in range(1000)]
    for group in ("pair", "source"):
        order = sampler(rows, BalanceSettings(scheme="proportional", group=group)).order(0)
        small = np.flatnonzero(order >= 900)
        assert np.diff(small).min() >= 9 and np.diff(small).max() <= 11


def test_a_corpus_of_one_group_is_visited_again_and_again() -> None:
    rows = [(source, 0, 0) for source in range(90)] + [(100, 1, language) for language in range(3)]
    order = sampler(rows, BalanceSettings(scheme="corpora", group="source")).order(0).tolist()
    repeated = [length for corpus, length in runs([rows[pair][1] for pair in order]) if corpus == 1]
    assert max(repeated) <= 6 and len(repeated) > 10


def test_a_corpus_of_one_pair_beside_a_large_one() -> None:
    corpus = np.array([0] * 200_000 + [1], dtype=np.int64)
    order = Sampler(
        np.arange(200_001), corpus, np.zeros_like(corpus), BalanceSettings(scheme="corpora", group="source"), 3
    ).order(1)
    drawn = np.bincount(corpus[order])
    assert drawn.sum() == 200_001 and abs(drawn[0] - drawn[1]) <= 1
    assert np.bincount(order).tolist()[-1] == drawn[1]


@given(some_rows, some_settings(), st.integers(0, 3), st.integers(1, 30))
def test_shuffling_in_small_blocks_changes_nothing(rows: Rows, balance: BalanceSettings, epoch: int, block: int) -> None:
    expected = sampler(rows, balance).order(epoch).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isogloss.corpora.sampling.balance.BLOCK", block)
        assert sampler(rows, balance).order(epoch).tolist() == expected


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(some_rows, st.sampled_from(["everything", "proportional", "languages"]), st.integers(0, 3))
def test_a_source_and_its_translations_stay_together(rows: Rows, scheme: str, epoch: int) -> None:
    order = sampler(rows, BalanceSettings(scheme=scheme, temperature=1.0, group="source")).order(epoch).tolist()  # type: ignore[arg-type]
    units = [row[:1] if scheme == "everything" else row[:2] for row in rows]
    found = runs([units[pair] for pair in order])
    assert dict(found) == Counter(units) and len(found) == len(set(units))


@given(some_rows, st.integers(0, 3), st.integers(1, 100))
def test_repeated_units_stay_together_on_every_visit(rows: Rows, epoch: int, length: int) -> None:
    draws = sampler(rows, BalanceSettings(scheme="corpora", pairs_per_epoch=length, group="source"))
    order = draws.order(epoch).tolist()
    sizes = Counter(row[1] for row in rows)
    before = Counter(rows[pair][1] for earlier in range(epoch) for pair in draws.order(earlier).tolist())
    drawn = Counter(rows[pair][1] for pair in order)
    found = Counter(unit for unit, _ in runs([rows[pair][:2] for pair in order]))
    for (_, corpus), visits in found.items():
        last = (before[corpus] + drawn[corpus] - 1) // sizes[corpus]
        assert visits <= last - before[corpus] // sizes[corpus] + 1, "one visit for each pass that the epoch touches"


@pytest.mark.parametrize("scheme", ["everything", "corpora", "proportional", "languages"])
def test_a_few_languages_at_a_time_in_changing_company(scheme: str) -> None:
    rows = [(source, source % 2, language) for source in range(60) for language in range(12)]
    balance = BalanceSettings(scheme=scheme, temperature=1.0, max_languages_per_group=3, group="source")  # type: ignore[arg-type]
    draws = sampler(rows, balance)
    companies = []
    for epoch in range(2):
        order = draws.order(epoch).tolist()
        assert sorted(order) == list(range(len(rows))), "all translations come up, at different times"
        found = runs([rows[pair][0] for pair in order])
        assert all(length % 3 == 0 for _, length in found)
        assert sum(length == 3 for _, length in found) > 0.9 * len(found), "two visits to a source are seldom neighbors"
        companies.append({frozenset(order[start : start + 3]) for start in range(0, len(order), 3)})
    assert companies[0] != companies[1]


def test_flattened_languages_share_most_sources() -> None:
    """One N-way corpus in four languages of which two are small: drawn in other passes, they still meet the large ones."""
    rows = [(source, 0, language) for language, size in enumerate((400, 400, 50, 20)) for source in range(size)]
    balance = BalanceSettings(scheme="languages", temperature=5.0, pairs_per_epoch=600, group="source")
    for epoch in range(3):
        order = sampler(rows, balance).order(epoch).tolist()
        lone = sampler(rows, BalanceSettings(scheme="languages", group="pair", pairs_per_epoch=600)).order(epoch).tolist()
        together = len(runs([rows[pair][0] for pair in order]))
        assert together < 0.75 * len(runs([rows[pair][0] for pair in lone]))


def test_languages_in_different_passes_meet() -> None:
    """A large and a small language, 0.75 and 3.75 passes an epoch: whatever was drawn of a source meets."""
    rows = [(source, 0, 0) for source in range(200)] + [(source, 0, 1) for source in range(40)]
    draws = sampler(rows, BalanceSettings(scheme="datasets", pairs_per_epoch=300, group="source"))
    for epoch in range(5):
        order = draws.order(epoch).tolist()
        joined = {rows[one][0] for one, other in pairwise(order) if rows[one][0] == rows[other][0]}
        large, small = ({rows[pair][0] for pair in order if rows[pair][2] == language} for language in range(2))
        assert large & small and large & small <= joined


def test_rare_corpora_come_at_moments_of_a_golden_sequence() -> None:
    """Stratum s of S is due in epoch e at frac((s + e · S) · φ), φ = (√5 − 1) / 2: never all at once, nor always first."""
    size, rare, epochs = 4000, 5, 6
    rows = [(source, 0, 0) for source in range(size)] + [(size + code, code, 0) for code in range(1, rare + 1)]
    draws = sampler(rows, BalanceSettings(scheme="proportional", temperature=1.0, group="pair"))
    moments = []
    for epoch in range(epochs):
        place = {pair: where for where, pair in enumerate(draws.order(epoch).tolist())}
        found = [place[size + code] / size for code in range(rare)]
        numbers = np.arange(1, rare + 1) + epoch * (rare + 1)
        assert found == pytest.approx((numbers * (5**0.5 - 1) / 2 % 1).tolist(), abs=3 * rare / size)
        moments += found
    assert np.diff(np.sort(moments)).min() > 0.3 / len(moments)


@pytest.mark.parametrize(
    "balance", [BalanceSettings(scheme="languages", group="source"), BalanceSettings(cap_language=400, group="source")]
)
def test_meeting_makes_no_language_early_or_late(balance: BalanceSettings) -> None:
    random = np.random.default_rng(1)
    rows = [(int(s), 0, k) for k, size in enumerate((2000, 1500, 500, 60)) for s in random.choice(2000, size, replace=False)]
    rows += [(2000 + source, 1, 0) for source in range(6000)]
    draws = sampler(rows, balance)
    for epoch in range(3):
        language = columns([rows[pair] for pair in draws.order(epoch).tolist()])[2]
        fifths = np.array([np.bincount(part, minlength=4) for part in np.array_split(language, 5)])
        assert (np.ptp(fifths, axis=0) <= 0.12 * fifths.mean(axis=0) + 8).all()


def test_a_pair_that_is_drawn_often_comes_at_even_distances() -> None:
    rows = [(source, 0, 0) for source in range(500)] + [(source, 0, 1) for source in range(20)]
    order = sampler(rows, BalanceSettings(scheme="datasets", pairs_per_epoch=400, group="source")).order(0)
    for pair in range(500, 520):
        places = np.flatnonzero(order == pair)
        assert len(places) == 10 and np.median(np.diff(places)) == 40 and np.diff(places).max() < 80


def test_corpora_that_share_sources_are_groups_of_their_own() -> None:
    rows = [(source, corpus, language) for source in range(40) for corpus in range(2) for language in range(2)]
    order = sampler(rows, BalanceSettings(scheme="languages", temperature=1.0, group="source")).order(0).tolist()
    assert len(runs([rows[pair][0] for pair in order])) > 70


# ── for people and recipes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_plan_says_what_an_epoch_draws() -> None:
    pairs = [Pair(f"s{number}", f"t{number}", "sw", "small") for number in range(10)]
    pairs += [Pair(f"s{number}", f"u{number}", language, "large") for number in range(40) for language in ("de", "fr")]
    pairs += [Pair("held", "out", "de", "large", "test")]
    planned = plan(Bitext.of(pairs).pair_counts().of_split(), BalanceSettings(scheme="corpora", group="source"))
    assert [(share.corpus, share.language, share.pairs) for share in planned] == [
        ("large", "de", 40),
        ("large", "fr", 40),
        ("small", "sw", 10),
    ]
    assert [share.per_epoch for share in planned] == pytest.approx([22.5, 22.5, 45.0])
    assert [share.passes for share in planned] == pytest.approx([0.5625, 0.5625, 4.5])


def test_no_pairs_no_draws() -> None:
    for scheme in ("everything", "corpora", "languages", "datasets", "proportional"):
        draws = sampler([], BalanceSettings(scheme=scheme, cap_corpus=3, group="source"))
        assert draws.pairs_in(0) == 0 and len(draws.order(0)) == 0


def test_settings_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(RecipeError, match="scheme = 'copora' is not known"):
        BalanceSettings(scheme="copora")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="pairs_per_epoch is set"):
        BalanceSettings(pairs_per_epoch=10)
    with pytest.raises(RecipeError, match="max_languages_per_group is set"):
        BalanceSettings(group="pair", max_languages_per_group=2)

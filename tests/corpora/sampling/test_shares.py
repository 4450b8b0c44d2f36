"""Shares: rates equal the formulas, whole pairs add up to the rates, caps hold in every epoch."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.shares import Allotment, divided, plan, rates_of, strata_of
from isogloss.types import IntArray

Cells = dict[tuple[int, int], int]  # (corpus, language) → pairs

some_cells = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 5)), st.integers(1, 40), min_size=1, max_size=12)
some_cap = st.one_of(st.just(0), st.integers(1, 30))


def columns(cells: Cells) -> tuple[IntArray, IntArray]:
    rows = [cell for cell, pairs in cells.items() for _ in range(pairs)]
    return np.array([corpus for corpus, _ in rows], dtype=np.int64), np.array([lang for _, lang in rows], dtype=np.int64)


def per_epoch(cells: Cells, settings: BalanceSettings) -> dict[tuple[int, int], float]:
    shares = plan({(f"c{corpus}", f"l{language}"): pairs for (corpus, language), pairs in cells.items()}, settings)
    return {(int(share.corpus[1:]), int(share.language[1:])): share.per_epoch for share in shares}


def size(cells: Cells, corpus: int | None = None, language: int | None = None) -> int:
    return sum(n for (c, k), n in cells.items() if corpus in (None, c) and language in (None, k))


@given(some_cells, st.floats(1, 100))
def test_languages_follow_the_formula(cells: Cells, temperature: float) -> None:
    drawn = per_epoch(cells, BalanceSettings(scheme="languages", temperature=temperature))
    languages = {language for _, language in cells}
    weights = {language: size(cells, language=language) ** (1 / temperature) for language in languages}
    for (corpus, language), pairs in cells.items():
        share = weights[language] / sum(weights.values()) * pairs / size(cells, language=language)
        assert drawn[corpus, language] == pytest.approx(share * size(cells))


@given(some_cells)
def test_temperature_one_keeps_sizes_and_a_high_one_makes_languages_equal(cells: Cells) -> None:
    assert per_epoch(cells, BalanceSettings(scheme="languages", temperature=1.0)) == pytest.approx(cells)
    drawn = per_epoch(cells, BalanceSettings(scheme="languages", temperature=1e9))
    languages = {language for _, language in cells}
    for language in languages:
        of_language = sum(pairs for (_, other), pairs in drawn.items() if other == language)
        assert of_language == pytest.approx(size(cells) / len(languages), rel=1e-6)


@given(some_cells, st.one_of(st.just(0), st.integers(1, 500)))
def test_corpora_and_datasets_are_equal(cells: Cells, length: int) -> None:
    corpora = {corpus for corpus, _ in cells}
    drawn = per_epoch(cells, BalanceSettings(scheme="corpora", pairs_per_epoch=length))
    for (corpus, _), pairs in drawn.items():
        expected = (length or size(cells)) / len(corpora) * cells[corpus, _] / size(cells, corpus=corpus)
        assert pairs == pytest.approx(expected)
    drawn = per_epoch(cells, BalanceSettings(scheme="datasets", pairs_per_epoch=length))
    assert list(drawn.values()) == pytest.approx([(length or size(cells)) / len(cells)] * len(cells))


@given(some_cells, st.sampled_from(["everything", "proportional"]))
def test_by_size_without_caps_is_every_pair_once(cells: Cells, scheme: str) -> None:
    assert per_epoch(cells, BalanceSettings(scheme=scheme)) == pytest.approx(cells)  # type: ignore[arg-type]


def test_caps_as_in_the_paper() -> None:
    cells = {(0, 0): 50, (1, 0): 30, (0, 1): 10}  # Ham & Kim: the same number of every language, where there is enough
    assert per_epoch(cells, BalanceSettings(cap_language=40)) == pytest.approx({(0, 0): 25, (1, 0): 15, (0, 1): 10})
    assert per_epoch(cells, BalanceSettings(cap_corpus=30)) == pytest.approx({(0, 0): 25, (1, 0): 30, (0, 1): 5})
    assert per_epoch(cells, BalanceSettings(cap_corpus_language=20)) == pytest.approx({(0, 0): 20, (1, 0): 20, (0, 1): 10})


def test_schemes_see_capped_sizes() -> None:
    cells = {(0, 0): 100, (1, 1): 16}
    assert per_epoch(cells, BalanceSettings(scheme="corpora", cap_corpus=20)) == pytest.approx({(0, 0): 18, (1, 1): 18})
    by_root = BalanceSettings(scheme="languages", temperature=2.0, cap_language=64)
    assert per_epoch(cells, by_root) == pytest.approx({(0, 0): 80 * 8 / 12, (1, 1): 80 * 4 / 12})


def test_a_cap_outlives_repetition() -> None:
    cells = {(0, 0): 100, (1, 1): 2}
    settings = BalanceSettings(scheme="corpora", cap_corpus=40, pairs_per_epoch=200)
    assert per_epoch(cells, settings) == pytest.approx({(0, 0): 40, (1, 1): 40})


schemes = st.sampled_from(["everything", "corpora", "languages", "datasets", "proportional"])


@given(some_cells, schemes, some_cap, some_cap, some_cap, st.integers(1, 12))
@example({(0, 1): 3, (1, 1): 1, (2, 1): 5, (0, 2): 2, (0, 0): 1, (1, 0): 5}, "everything", 3, 4, 0, 6)
def test_caps_hold_in_every_epoch(cells: Cells, scheme: str, corpus: int, language: int, both: int, epochs: int) -> None:
    settings = BalanceSettings(scheme=scheme, cap_corpus=corpus, cap_language=language, cap_corpus_language=both)  # type: ignore[arg-type]
    strata = strata_of(*columns(cells), settings)
    allotment = Allotment(strata, settings)
    for epoch in range(epochs):
        counts = allotment.counts(epoch)
        assert (counts >= 0).all() and counts.sum() <= size(cells)
        assert (counts <= np.ceil(allotment.rates - 1e-6)).all(), "what one may not have is not pressed on another"
        assert not corpus or np.bincount(strata.corpus, counts).max() <= corpus
        assert not language or np.bincount(strata.language, counts).max() <= language
        assert not both or counts.max() <= both


@given(some_cells, schemes, st.integers(1, 300), st.integers(1, 30))
@example({(0, 0): 21, (1, 0): 17, (2, 0): 21, (3, 0): 17, (4, 0): 21, (5, 0): 7}, "proportional", 10, 30)
def test_whole_pairs_stay_near_the_rate(cells: Cells, scheme: str, length: int, epochs: int) -> None:
    settings = BalanceSettings(scheme=scheme, pairs_per_epoch=0 if scheme == "everything" else length)  # type: ignore[arg-type]
    strata = strata_of(*columns(cells), settings)
    allotment, rates = Allotment(strata, settings), rates_of(strata, settings)
    length = settings.pairs_per_epoch or size(cells)
    for epoch in range(epochs):
        counts = allotment.counts(epoch)
        assert counts.sum() == length, "without caps all epochs have the same length"
        assert (np.abs(counts - rates) <= 1 + 1e-6).all()
        assert (np.abs(allotment.before(epoch) + counts - (epoch + 1) * rates) <= 1 + 1e-6).all()


def test_a_part_of_a_pair_an_epoch_is_a_pair_every_few_epochs() -> None:
    settings = BalanceSettings(scheme="proportional", pairs_per_epoch=10)
    allotment = Allotment(strata_of(*columns({(0, 0): 290, (1, 0): 10}), settings), settings)
    assert sum(int(allotment.counts(epoch)[1]) for epoch in range(30)) == 10


def test_what_caps_leave_of_a_pair_is_not_lost() -> None:
    settings = BalanceSettings(scheme="languages", temperature=2.0, cap_corpus=1)
    allotment = Allotment(strata_of(*columns({(0, 0): 1, (1, 0): 1, (1, 1): 2}), settings), settings)
    assert 1.8 < allotment.rates.sum() < 1.9
    drawn = np.sum([allotment.counts(epoch) for epoch in range(100)], axis=0)
    assert (np.abs(drawn - 100 * allotment.rates) <= 1).all()


def test_epochs_may_be_asked_for_in_any_order() -> None:
    settings = BalanceSettings(scheme="proportional", pairs_per_epoch=7)
    strata = strata_of(*columns({(0, 0): 9, (1, 0): 5, (2, 0): 3}), settings)
    forward, backward = Allotment(strata, settings), Allotment(strata, settings)
    expected = [forward.counts(epoch).tolist() for epoch in range(9)]
    assert [backward.counts(epoch).tolist() for epoch in reversed(range(9))] == expected[::-1]


def test_passes() -> None:
    shares = plan({("web", "de"): 90, ("dictionary", "de"): 10, ("empty", "fr"): 0}, BalanceSettings(scheme="corpora"))
    assert [(share.corpus, share.pairs, share.passes) for share in shares] == [("dictionary", 10, 5.0), ("web", 90, 50 / 90)]
    assert plan({}, BalanceSettings(scheme="languages")) == ()


# ── over shards ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def divided_by_a_loop(draws: int, sizes: list[int]) -> list[int]:
    """Webster, one draw at a time; a pass ends when every shard gave all it has."""
    given, taken = [0] * len(sizes), [0] * len(sizes)
    for _ in range(draws):
        shard = min((k for k in range(len(sizes)) if sizes[k]), key=lambda k: ((taken[k] + 0.5) / sizes[k], k))
        taken[shard] += 1
        if taken == sizes:
            given, taken = [one + size for one, size in zip(given, sizes, strict=True)], [0] * len(sizes)
    return [one + more for one, more in zip(given, taken, strict=True)]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any), st.integers(0, 120))
def test_draws_fall_to_shards_by_turns_and_are_never_taken_back(sizes: list[int], draws: int) -> None:
    other = [5] * len(sizes)
    fallen = divided(np.array([draws, 7]), np.array([sizes, other]))
    assert fallen.tolist() == [divided_by_a_loop(draws, sizes), divided_by_a_loop(7, other)]
    later = divided(np.array([draws + 1]), np.array([sizes]))
    assert (later >= fallen[:1]).all() and later.sum() == draws + 1


def test_draws_fall_to_shards_in_proportion_where_there_are_millions() -> None:
    sizes = np.random.default_rng(1).integers(0, 2_000_000, (3, 200))
    draws = np.array([5, 12_345_678, 987_654_321])
    fallen = divided(draws, sizes)
    assert fallen.sum(axis=1).tolist() == draws.tolist()
    assert np.abs(fallen - draws[:, None] * sizes / sizes.sum(axis=1, keepdims=True)).max() < 1.5

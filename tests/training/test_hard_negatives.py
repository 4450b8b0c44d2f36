"""Hard negatives against a loop over all translations: near, and wrong by all that the pairs know."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.training import hard_negatives as negatives
from isogloss.training.batches import PairRows
from isogloss.training.hard_negatives import mine_negatives
from isogloss.types import FloatArray

TEXTS = 14


def vectors(seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(TEXTS, 3)).astype(np.float32)


@st.composite
def some_pairs(draw: st.DrawFn) -> PairRows:
    """Few texts in three languages, so that many translate several sources; a source may be its own translation."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, TEXTS - 1), st.integers(0, 2)), min_size=1, max_size=30))
    source, target, language = (np.array(column, dtype=np.int64) for column in zip(*drawn, strict=True))
    return PairRows(source, target, np.zeros_like(source), language)


def by_definition(pairs: PairRows, seed: int, pair: int, wanted: int) -> list[int]:
    """The texts of `wanted` negatives of a pair, nearest first; fewer where there are no more."""
    drawn, source = vectors(seed), int(pairs.source[pair])
    right = {int(t) for s, t in zip(pairs.source, pairs.target, strict=True) if s == source} | {source}
    spoken = {int(t) for t, language in zip(pairs.target, pairs.language, strict=True) if language == pairs.language[pair]}

    def nearness(text: int) -> float:
        lengths = np.linalg.norm(drawn[source]) * np.linalg.norm(drawn[text])
        return float(drawn[source] @ drawn[text] / lengths)

    return sorted(spoken - right, key=nearness, reverse=True)[:wanted]


@settings(deadline=None)
@given(some_pairs(), st.integers(1, 4), st.integers(0, 999))
def test_they_are_the_nearest_that_are_wrong(pairs: PairRows, wanted: int, seed: int) -> None:
    found = mine_negatives(pairs, lambda rows: vectors(seed)[rows], wanted, seed)
    assert found.shape == (len(pairs), wanted)
    for pair in range(len(pairs)):
        expected = by_definition(pairs, seed, pair, wanted)
        numbers = found[pair]
        if not expected:
            assert (pairs.source[numbers] == pairs.source[pair]).all(), "its own source, which no ranking takes for wrong"
            continue
        assert pairs.target[numbers].tolist() == np.resize(expected, wanted).tolist()
        assert (pairs.language[numbers] == pairs.language[pair]).all()
        assert (pairs.source[numbers] != pairs.source[pair]).all()


def test_a_translation_that_two_sources_share_is_wrong_for_neither_and_their_others_are_for_each_other() -> None:
    """A has t and u, B has t and v: u is near B and wrong for it, so it is taken; t is nearer still, and is not."""
    a, b, t, u, v, far = range(6)
    places = np.array([[1, 0], [1, 0.1], [1, 0.05], [1, 0.2], [1, 0.3], [-1, 0]], dtype=np.float32)
    source, target = np.array([a, a, b, b, far]), np.array([t, u, t, v, far])
    pairs = PairRows(source, target, 0 * source, 0 * source)
    found = mine_negatives(pairs, lambda rows: places[rows], 2, 0)
    assert pairs.target[found[:4]].tolist() == [[v, far], [v, far], [u, far], [u, far]]


@settings(deadline=None, max_examples=30)
@given(some_pairs(), st.integers(0, 999))
def test_in_samples_they_are_still_wrong(pairs: PairRows, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "AT_ONCE", 5)
        found = mine_negatives(pairs, lambda rows: vectors(seed)[rows], 2, seed)
    for pair in range(len(pairs)):
        right = set(pairs.target[pairs.source == pairs.source[pair]].tolist()) | {int(pairs.source[pair])}
        for number in found[pair]:
            assert pairs.source[number] == pairs.source[pair] or int(pairs.target[number]) not in right


def test_the_seed_says_which_samples() -> None:
    number = np.arange(12)
    pairs = PairRows(number % 6, number % TEXTS, 0 * number, 0 * number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negatives, "AT_ONCE", 4)
        one, same, other = (mine_negatives(pairs, lambda rows: vectors(0)[rows], 2, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)

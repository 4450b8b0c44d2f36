"""Margins and matches against the paper's definitions, by loops over all pairs."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config.mining import Margin, SearchSettings, Strategy
from isogloss.mining.margin import candidate_scores, margin_scores
from isogloss.mining.matching import matched
from isogloss.search.neighbors import Neighbors, both_ways
from isogloss.types import FloatArray
from mining.oracles import cosine_table, margin_by_definition, matches_by_definition, two_sides

CPU = SearchSettings(device="cpu")


def as_table(side: Neighbors, scores: FloatArray, columns: int) -> FloatArray:
    """Scores of candidates as a matrix, −∞ for those that are none."""
    table = np.full((len(side), columns), -np.inf, dtype=np.float32)
    np.put_along_axis(table, side.ids, scores, axis=1)
    return table


@settings(max_examples=40, deadline=None)
@given(two_sides(max_rows=12), st.integers(1, 4), st.sampled_from(get_args(Margin)))
def test_margin_equals_the_formula(sides: tuple[FloatArray, FloatArray], k: int, kind: Margin) -> None:
    left, right = both_ways(*sides, k, CPU)
    table = cosine_table(*sides)
    of_left, of_right = candidate_scores(left, right, kind)
    for i, j, score in zip(np.repeat(np.arange(len(left)), left.k), left.ids.flat, of_left.flat, strict=True):
        assert score == pytest.approx(margin_by_definition(table, int(i), int(j), k, kind), rel=1e-5, abs=1e-5)
    for j, i, score in zip(np.repeat(np.arange(len(right)), right.k), right.ids.flat, of_right.flat, strict=True):
        assert score == pytest.approx(margin_by_definition(table, int(i), int(j), k, kind), rel=1e-5, abs=1e-5)


@settings(max_examples=100, deadline=None)
@given(two_sides(max_rows=12), st.integers(1, 4), st.sampled_from(get_args(Strategy)), st.sampled_from(get_args(Margin)))
def test_matches_equal_the_definition(sides: tuple[FloatArray, FloatArray], k: int, strategy: Strategy, kind: Margin) -> None:
    left, right = both_ways(*sides, k, CPU)
    scores = candidate_scores(left, right, kind)
    found = matched(left, right, *scores, strategy=strategy)
    forward, backward = as_table(left, scores[0], len(right)), as_table(right, scores[1], len(left)).T
    wanted = matches_by_definition(forward, backward, strategy)
    assert list(zip(found.left.tolist(), found.right.tolist(), found.scores.tolist(), strict=True)) == wanted


def test_max_takes_each_sentence_once_and_one_to_one_finds_second_choices() -> None:
    left = Neighbors(np.array([[0, 1], [0, 1], [0, 1]]), np.array([[0.9, 0.5], [0.8, 0.6], [0.7, 0.4]], np.float32))
    right = Neighbors(np.array([[0, 1], [1, 0]]), np.array([[0.9, 0.8], [0.6, 0.5]], np.float32))
    best = matched(left, right, left.similarity, right.similarity, "max")
    assert list(zip(best.left, best.right, strict=True)) == [(0, 0), (1, 1)]
    forward = matched(left, right, left.similarity, right.similarity, "forward")
    assert list(zip(forward.left, forward.right, strict=True)) == [(0, 0), (1, 0), (2, 0)]
    both = matched(left, right, left.similarity, right.similarity, "intersection")
    assert list(zip(both.left, both.right, strict=True)) == [(0, 0)]
    alone = Neighbors(np.array([[0, 1], [0, 1]]), np.array([[0.9, 0.3], [0.8, 0.2]], np.float32))
    back = Neighbors(np.array([[0, 1], [0, 1]]), np.array([[0.9, 0.8], [0.3, 0.2]], np.float32))
    assert len(matched(alone, back, alone.similarity, back.similarity, "max")) == 1
    second = matched(alone, back, alone.similarity, back.similarity, "one-to-one")
    assert list(zip(second.left, second.right, strict=True)) == [(0, 0), (1, 1)]


def test_means_at_right_angles_do_not_make_garbage_look_good() -> None:
    scores = margin_scores(
        np.array([0.2, -0.2], dtype=np.float32),
        np.array([-0.5, -0.5], dtype=np.float32),
        np.array([0.1, 0.1], dtype=np.float32),
    )
    assert scores[0] > 0 > scores[1]  # dividing by the negative mean would turn these round
    assert np.isfinite(scores).all()


def test_no_candidates_no_matches() -> None:
    none = both_ways(np.zeros((2, 4), np.float32), np.zeros((0, 4), np.float32), 2)
    assert len(matched(*none, *candidate_scores(*none))) == 0


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_where_nothing_is_near_there_are_no_pairs(strategy: Strategy) -> None:
    none = Neighbors(np.empty((0, 4), dtype=np.int64), np.empty((0, 4), dtype=np.float32))
    found = matched(none, none, none.similarity, none.similarity, strategy)
    assert [len(column) for column in (found.left, found.right, found.scores)] == [0, 0, 0]

"""Thresholds by gold against LASER's script, and without gold against pairs that were planted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config.mining import Margin, SearchSettings, Strategy
from isogloss.mining.calibration import (
    SPARE,
    best_threshold,
    calibrated,
    gold_curve,
    matched_without,
    near_misses,
    retrieved,
    retrieved_at,
    shuffled_pairs,
)
from isogloss.mining.margin import candidate_scores, margin_scores
from isogloss.mining.matching import Matches, matched
from isogloss.search.neighbors import Neighbors, both_ways, pair_cosines
from isogloss.types import BoolArray, FloatArray
from mining.oracles import crowded

CPU = SearchSettings(device="cpu")
scored_pairs = st.lists(st.tuples(st.integers(-8, 8), st.booleans()), min_size=1, max_size=20)


def laser_optimum(scores: list[float], right: list[bool], wanted: int) -> float:
    """BuccOptimize of LASER's bucc.py, for distinct scores: the best F1 going down, half way to the next."""
    items = sorted(zip(scores, right, strict=True), key=lambda item: -item[0])
    best, threshold, correct = 0.0, float("inf"), 0
    for place, (score, own) in enumerate(items):
        correct += own
        if correct:
            precision, recall = correct / (place + 1), correct / wanted
            f1 = 2 * precision * recall / (precision + recall)
            if f1 > best + 1e-12:
                best = f1
                threshold = (score + items[min(place + 1, len(items) - 1)][0]) / 2
    return threshold


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.booleans()), min_size=1, max_size=20, unique_by=lambda one: one[0]),
    st.integers(0, 5),
)
def test_best_threshold_is_lasers(pairs: list[tuple[int, bool]], missed: int) -> None:
    scores, right = [one / 7 for one, _ in pairs], [own for _, own in pairs]
    wanted = sum(right) + missed
    found = best_threshold(np.array(scores, dtype=np.float32), np.array(right), wanted)
    assert found == pytest.approx(laser_optimum(scores, right, wanted), rel=1e-5)


@given(scored_pairs, st.integers(0, 5))
def test_no_other_threshold_is_better(pairs: list[tuple[int, bool]], missed: int) -> None:
    scores, right = np.array([one for one, _ in pairs], dtype=np.float32), np.array([own for _, own in pairs])
    wanted = int(right.sum()) + missed
    best = retrieved_at(best_threshold(scores, right, wanted), scores, right, wanted)
    for threshold in np.arange(-9, 10, 0.5):
        assert best.f1 >= retrieved_at(float(threshold), scores, right, wanted).f1 - 1e-12


def test_counts_in_words() -> None:
    assert retrieved(3, 4, 6) == (0.75, 0.5, 0.6)
    assert retrieved(0, 0, 0) == (0.0, 0.0, 0.0)
    assert best_threshold(np.array([1, 2], dtype=np.float32), np.array([False, False]), 3) == float("inf")


def planted(true: int, lonely: int, noise: float, seed: int = 1) -> tuple[FloatArray, FloatArray]:
    """Sentences of which the first `true` of both sides belong together, and others without a translation."""
    random = np.random.default_rng(seed)
    meanings = crowded(true + 2 * lonely, 24, seed)
    left = np.concatenate([meanings[:true], meanings[true : true + lonely]])
    right = np.concatenate([meanings[:true], meanings[true + lonely :]])
    spread = noise * np.linalg.norm(meanings, axis=1).mean() / 24**0.5
    left, right = (side + spread * random.normal(size=side.shape) for side in (left, right))
    return left.astype(np.float32), right.astype(np.float32)


def mined(left: FloatArray, right: FloatArray, kind: Margin = "ratio") -> tuple[Neighbors, Neighbors, Matches]:
    of_left, of_right = both_ways(left, right, 4 + SPARE, CPU)
    first = of_left.first(4), of_right.first(4)
    return of_left, of_right, matched(*first, *candidate_scores(*first, kind))


@pytest.mark.parametrize(("true", "lonely"), [(900, 300), (300, 900), (150, 1050)])
@pytest.mark.parametrize("kind", ["ratio", "distance"])
def test_estimated_precision_is_near_the_true_one(true: int, lonely: int, kind: Margin) -> None:
    left, right = planted(true, lonely, 0.25)
    of_left, of_right, matches = mined(left, right, kind)
    near = near_misses(of_left, of_right, matches, 4, kind)
    rows, columns = shuffled_pairs(len(left), len(right), matches)
    means = of_left.first(4).mean[rows], of_right.first(4).mean[columns]
    shuffled = margin_scores(pair_cosines(left, right, rows, columns), *means, kind)
    found = calibrated(matches.scores, near, shuffled, len(left))
    gold = (matches.left == matches.right) & (matches.left < true)
    assert found.without_translation == pytest.approx(lonely / (true + lonely), abs=0.12)
    for wanted in (0.8, 0.9, 0.95):  # a few hundred pairs: nobody could say it more exactly
        threshold = found.threshold_for(wanted)
        real = retrieved_at(threshold, matches.scores, gold, true)
        assert real.precision == pytest.approx(wanted, abs=0.1)
        assert real.recall > 0.75
        assert found.precision_at(threshold) >= wanted


@pytest.mark.parametrize("strategy", ["max", "one-to-one", "forward"])
def test_hiding_sentences_is_mining_without_them(strategy: Strategy) -> None:
    left, right = planted(30, 10, 0.2)
    of_left, of_right = both_ways(left, right, 4 + SPARE, CPU)
    hidden = np.zeros(len(right), dtype=np.bool_)
    hidden[[0, 7, 12, 39]] = True  # no more than there are spare neighbors
    found = matched_without(of_left, of_right, hidden, 4, "ratio", strategy)
    rest = np.flatnonzero(~hidden)
    again = both_ways(left, right[rest], 4, CPU)
    wanted = matched(*again, *candidate_scores(*again), strategy)
    assert found.left.tolist() == wanted.left.tolist()
    assert found.right.tolist() == rest[wanted.right].tolist()
    assert found.scores == pytest.approx(wanted.scores, rel=1e-6)


def test_a_near_miss_is_worse_than_the_partner() -> None:
    left, right = planted(30, 10, 0.05)
    of_left, of_right, matches = mined(left, right)
    true = matches.left < 30
    near = near_misses(of_left, of_right, matches, 4)
    assert (near[true] < matches.scores[true].min()).all()
    assert (near > -np.inf).any()


def test_shuffled_pairs_keep_the_threshold_up() -> None:
    scores, nothing = np.array([0.9, 0.8, 0.3], dtype=np.float32), np.array([-np.inf] * 3, dtype=np.float32)
    found = calibrated(scores, nothing, np.array([0.1] * 99 + [0.5], dtype=np.float32), 3)
    assert found.without_translation == 0
    assert found.threshold_for(0.5) == pytest.approx(0.8)
    assert calibrated(scores, nothing, np.empty(0, np.float32), 3).threshold_for(0.5) == pytest.approx(0.3)


def test_shuffled_pairs_are_no_mined_ones() -> None:
    matches = Matches(np.arange(5), np.arange(5), np.ones(5, np.float32))
    rows, columns = shuffled_pairs(5, 6, matches)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {(i, j) for i in range(5) for j in range(6) if i != j}


def test_no_pairs_no_threshold() -> None:
    none = np.empty(0, np.float32)
    found = calibrated(none, none, none, 5)
    assert found.threshold_for(0.9) == float("inf") and found.precision_at(1.0) == 0
    assert found.as_dict() == {"without_translation": 1.0, "curve": []}


def test_wrong_pairs_only_are_not_trusted() -> None:
    random = np.random.default_rng(0)
    left, right = (random.normal(size=(400, 16)).astype(np.float32) for _ in range(2))
    of_left, of_right, matches = mined(left, right)
    near = near_misses(of_left, of_right, matches, 4)
    found = calibrated(matches.scores, near, np.array([0], dtype=np.float32), 400)
    taken = int((matches.scores >= found.threshold_for(0.9)).sum())
    assert taken < 40


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.5, 1.5, width=32), min_size=1, max_size=60), st.data())
def test_the_curve_adds_up(values: list[float], data: st.DataObject) -> None:
    scores = np.array(values, dtype=np.float32)
    wrong = np.array(
        data.draw(st.lists(st.floats(0.5, 1.5, width=32), min_size=len(values), max_size=len(values))), dtype=np.float32
    )
    found = calibrated(scores, wrong, wrong, len(values))
    assert (np.diff(found.thresholds) < 0).all()
    for threshold, pairs in zip(found.thresholds, found.pairs, strict=True):
        assert int((scores >= np.float32(threshold)).sum()) == pairs
    assert ((found.precision >= 0) & (found.precision <= 1)).all()


def test_pair_cosines() -> None:
    left, right = crowded(9, 5, 1), crowded(7, 5, 2)
    left[3] = 0
    rows, columns = np.array([0, 8, 3, 0]), np.array([6, 0, 1, 6])
    wanted = [
        float(left[i] @ right[j] / max(np.linalg.norm(left[i]) * np.linalg.norm(right[j]), 1e-9))
        for i, j in zip(rows, columns, strict=True)
    ]
    assert pair_cosines(left, right, rows, columns) == pytest.approx(wanted, abs=1e-6)


def test_right_answers() -> None:
    right: BoolArray = np.array([True, False, True])
    assert retrieved_at(0.5, np.array([0.9, 0.6, 0.2], dtype=np.float32), right, 2) == (0.5, 0.5, 0.5)


@given(scored_pairs, st.integers(0, 5))
def test_a_gold_curve_says_what_each_threshold_would_give(pairs: list[tuple[int, bool]], missed: int) -> None:
    scores, right = np.array([one for one, _ in pairs], dtype=np.float32), np.array([own for _, own in pairs])
    wanted = int(right.sum()) + missed
    curve = gold_curve(scores, right, wanted)
    assert curve.thresholds.tolist() == sorted(set(scores.tolist()), reverse=True), "so few points are all there"
    for threshold, count, precision, recall in zip(curve.thresholds, curve.pairs, curve.precision, curve.recall, strict=True):
        told = retrieved_at(float(threshold), scores, right, wanted)
        assert count == (scores >= threshold).sum()
        assert (precision, recall) == pytest.approx((told.precision, told.recall))

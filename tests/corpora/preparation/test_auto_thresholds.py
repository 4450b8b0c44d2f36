"""Thresholds learnt from scores: where there is something to learn, and the recipe's where there is not."""

import numpy as np
import pytest

from isogloss.corpora.cleaning.language import Language, Script
from isogloss.corpora.cleaning.length import LengthRatio
from isogloss.corpora.preparation.auto_thresholds import Threshold, apply, choose

RANDOM = np.random.default_rng(5)


def scores(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts).astype(np.float32)


def test_a_ratio_ends_where_ordinary_spread_ends() -> None:
    ordinary = np.exp(RANDOM.normal(0.2, 0.15, 5000))
    found = choose(LengthRatio(9.0), "de", scores(ordinary, np.full(50, 6.0)))
    assert found is not None
    assert found.value == pytest.approx(np.exp(0.2 + 3.5 * 0.15), rel=0.05)
    assert "ordinary spread ends" in found.reason


def test_the_recipes_ratio_stays_where_it_is_stricter_or_spread_is_no_noise() -> None:
    found = choose(LengthRatio(1.5), "de", scores(np.exp(RANDOM.normal(0.2, 0.15, 5000))))
    assert found.value == 1.5 and "ordinary spread reaches 2.0" in found.reason
    found = choose(LengthRatio(9.0), "de", scores(np.full(900, 1.2), np.full(100, 6.0)))
    assert found.value == 9.0 and "10 % are beyond 1.43, too many for noise" in found.reason


def test_a_small_low_heap_is_cut_off_in_the_valley() -> None:
    found = choose(Script(0.5), "ru", scores(RANDOM.normal(0.1, 0.03, 300), np.clip(RANDOM.normal(0.95, 0.04, 5000), 0, 1)))
    assert found is not None
    assert 0.2 < found.value < 0.8 and "valley" in found.reason


@pytest.mark.parametrize(
    "given",
    [
        np.clip(RANDOM.normal(0.9, 0.05, 5000), 0, 1),  # one heap
        np.ones(5000),  # all the same
        np.linspace(0, 1, 5000),  # no heap at all
        scores(np.full(2500, 0.1), np.full(2500, 0.9)),  # the low heap is half of it: that is not noise
    ],
)
def test_the_recipes_threshold_stays_where_there_is_no_small_low_heap(given: np.ndarray) -> None:
    found = choose(Language(0.2), "de", given.astype(np.float32))
    assert found == Threshold("wrong language", "de", 0.2, "setting kept: the scores form one cluster")


def test_few_scores_and_other_rules_teach_nothing() -> None:
    found = choose(Script(0.5), "de", scores(np.ones(10), np.full(5, np.nan)))
    assert found.value == 0.5 and "only 10 pairs" in found.reason


def test_chosen_thresholds_are_applied_by_rule() -> None:
    chosen = [Threshold("wrong script", "ru", 0.7, "")]
    assert apply([Script(0.5), LengthRatio(9.0)], chosen) == [Script(0.7), LengthRatio(9.0)]
    assert apply([Script(0.5)], []) == [Script(0.5)]

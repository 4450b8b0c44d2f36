"""Each rule's score is what it says it is, and its threshold only moves what is accepted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning import Empty, Identical, LengthRatio, TooLong, normalise, rules_from


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert once == once.strip() and "  " not in once and "\t" not in once


def test_normalise_composes_and_cleans() -> None:
    assert normalise("Cafe\u0301\u00a0 au\tlait\u200b\r\n") == "Café au lait"


def test_empty_sides() -> None:
    rule = Empty()
    assert rule.accept(rule.score(["Yes.", "...", "12"], ["Ja.", "Ja.", "—"])).tolist() == [True, False, False]


def test_too_long_counts_the_longer_side() -> None:
    rule = TooLong(5)
    assert rule.score(["abc", "abcdefg"], ["abcd", "a"]).tolist() == [4, 7]
    assert rule.accept(rule.score(["abc", "abcdefg"], ["abcd", "a"])).tolist() == [True, False]


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=20))
def test_length_ratio_is_symmetric_and_at_least_one(rows: list[tuple[str, str]]) -> None:
    rule = LengthRatio(3.0)
    left, right = [a for a, _ in rows], [b for _, b in rows]
    assert np.array_equal(rule.score(left, right), rule.score(right, left))
    assert (rule.score(left, right) >= 1).all()


def test_length_ratio_drops_misaligned_lines_only() -> None:
    rule = LengthRatio(9.0)
    long = "This is a rather long sentence about the history of railway stations."
    scores = rule.score([long, long, "Hi."], ["Ja.", "这是一个关于火车站历史的相当长的句子。", "Guten Tag."])
    assert rule.accept(scores).tolist() == [False, True, True]


def test_identical_looks_at_letters_not_case() -> None:
    rule = Identical()
    assert rule.accept(rule.score(["Hotel", "Water"], ["hotel", "Wasser"])).tolist() == [False, True]


@pytest.mark.parametrize("keep", [True, False])
def test_settings_choose_the_rules(keep: bool) -> None:
    names = [rule.name for rule in rules_from(CleaningSettings(drop_identical=keep))]
    assert ("identical sides" in names) is keep

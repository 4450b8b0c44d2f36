"""The gate: losses are percentage points, the limit itself passes, one language over it is enough."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.config import AddSettings
from isogloss.runs.gate import NO_LIMIT, GateVerdict, judge
from isogloss.types import LanguageScores, Report

HELD = 40  # sentences a language, so a score is a number of fortieths


def report(hits: dict[str, int], index: bool = True) -> Report:
    scores = (
        LanguageScores(language, HELD, found / HELD if index else None, found / HELD, 1 - found / HELD, None)
        for language, found in hits.items()
    )
    return Report("x", tuple(scores), 100)


def gate(points: float, **other: Any) -> AddSettings:  # noqa: ANN401
    return AddSettings(run="x", gate=points, **other)


HITS = st.dictionaries(
    st.sampled_from(["de", "ko", "ru", "sw"]), st.tuples(st.integers(0, HELD), st.integers(0, HELD)), min_size=1
)


@given(HITS, st.one_of(st.none(), st.integers(0, HELD - 1)))
def test_refuses_exactly_what_lost_more_than_allowed(hits: dict[str, tuple[int, int]], allowed: int | None) -> None:
    before, after = (report({language: pair[place] for language, pair in hits.items()}) for place in (0, 1))
    verdict = judge(before, after, hits, gate(NO_LIMIT if allowed is None else 100 * allowed / HELD))
    over = [language for language, (had, has) in hits.items() if allowed is not None and had - has > allowed]
    assert set(verdict.over) == set(over)
    assert verdict.as_dict()["refused"] == bool(over)
    lost = [hits[language][0] - hits[language][1] for language in verdict.over]
    assert lost == sorted(lost, reverse=True), "the worst is named first"
    for language, (had, has) in hits.items():
        assert verdict.losses[language] == pytest.approx(100 * (had - has) / HELD)


def verdict(most: float, **lost: float) -> GateVerdict:
    """Each language had everything, and lost some points."""
    return GateVerdict("to_source", most, dict.fromkeys(lost, 1.0), {language: 1 - one / 100 for language, one in lost.items()})


def test_the_limit_itself_passes_and_anything_above_it_does_not() -> None:
    for most in (0.1, 0.3, 1.0, 2.7, 29.0):
        assert verdict(most, de=most).over == [], "however it is rounded"
        assert verdict(most, de=most + 1e-8).over == ["de"]
        assert verdict(most, de=most - 1e-8, ru=-5).over == []


def test_what_is_written_has_two_digits() -> None:
    assert verdict(1.0, de=12.3456, ru=-0.125).as_dict() == {
        "measure": "to_source",
        "most": 1.0,
        "lost": {"de": 12.35, "ru": -0.12},
        "refused": True,
    }


def test_languages_that_lost_the_same_are_named_in_the_order_of_the_alphabet() -> None:
    assert verdict(1.0, ru=5, sw=25, ko=5, de=5).over == ["sw", "de", "ko", "ru"]


def test_only_old_languages_count_by_the_score_that_is_asked_for() -> None:
    before, after = report({"de": 40, "ru": 40, "sw": 10}), report({"de": 30, "ru": 38, "sw": 0})
    assert judge(before, after, ("de", "ru", "fr"), gate(1.0)).over == ["de", "ru"]
    assert judge(before, after, ("de", "ru"), gate(10.0, gate_on="to_source")).over == ["de"]
    gained = report({"de": 40, "ru": 40, "sw": 40, "fr": 40})
    assert judge(before, gained, ("de", "fr"), gate(1.0)).losses == {"de": 0.0}, "nobody knows what fr had"
    assert judge(before, after, ("de", "ru"), gate(0.0, gate_on="from_source")).over == []  # 1 − x: both gained


def test_without_the_teachers_space_sources_are_searched() -> None:
    verdict = judge(report({"de": 40}, index=False), report({"de": 20}, index=False), ("de",), gate(1.0))
    assert verdict.measure == "to_source" and verdict.over == ["de"]


def test_the_refusal_is_one_sentence_with_the_language_and_the_loss() -> None:
    verdict = judge(report({"de": 40, "ru": 40}), report({"de": 37, "ru": 30}), ("de", "ru"), gate(1.0))
    assert verdict.refusal() == (
        "ru lost 25.0 points when the teacher's index is searched (from 100.0 to 75.0 %), and de lost more than the 1 allowed"
    )
    one = judge(report({"de": 40}), report({"de": 37}), ("de",), gate(1.5, gate_on="to_source"))
    assert one.refusal().endswith("(from 100.0 to 92.5 %), more than the 1.5 allowed")

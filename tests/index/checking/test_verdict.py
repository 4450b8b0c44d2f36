"""Verdicts: what passes exactly at the minimum, what decides, and that every refusal says what to do."""

import pytest

from isogloss.config.index_check import IndexCheckSettings
from isogloss.index.checking.agreement import LanguageAgreement, Measured
from isogloss.index.checking.verdict import Verdict, criteria, judge, level_of, overall

SETTINGS = IndexCheckSettings(min_overlap=0.5, min_first_found=0.9, min_kept_recall=0.8, care=0.1, min_queries=50)
SURE = Measured(1, 1, 1)


def language(queries: int = 100, judged: int = 0, **scores: Measured) -> LanguageAgreement:
    return LanguageAgreement(queries, {"first_found": SURE, "overlap": SURE, **scores}, judged)


@pytest.mark.parametrize(
    ("low", "level"),
    [
        (0.9, "ship"),
        (0.8999, "ship with care"),
        (0.8, "ship with care"),
        (0.7999, "do not ship"),
        (1.0, "ship"),
        (0.0, "do not ship"),
    ],
)
def test_the_lower_end_of_the_interval_decides(low: float, level: str) -> None:
    assert level_of(Measured(0.99, low, 1.0), 0.9, 0.1) == level
    assert judge("de", language(first_found=Measured(0.99, low, 1.0)), SETTINGS).level == level


def test_without_gold_the_worse_of_two_scores_decides() -> None:
    assert criteria(language(), SETTINGS) == {"first_found": 0.9, "overlap": 0.5}
    low = judge("de", language(overlap=Measured(0.3, 0.25, 0.35), first_found=Measured(0.88, 0.85, 0.95)), SETTINGS)
    assert low.level == "do not ship" and "finds 30.0 % (25.0 to 35.0) of the teacher's first 10 results" in low.why
    assert "the minimum is 50 %, with care 40 %" in low.why
    both = judge("de", language(overlap=Measured(0.5, 0.45, 0.6), first_found=Measured(0.9, 0.81, 0.95)), SETTINGS)
    assert both.level == "ship with care" and "first result" in both.why, "it is further below its minimum"
    other = judge("de", language(overlap=Measured(0.5, 0.41, 0.6), first_found=Measured(0.9, 0.85, 0.95)), SETTINGS)
    assert other.level == "ship with care" and "first result" not in other.why
    care = judge("de", language(first_found=Measured(0.95, 0.85, 0.98)), SETTINGS)
    assert care.level == "ship with care" and "first result among its first 10 for 95.0 %" in care.why
    assert "with care" not in judge("de", language(), SETTINGS).why


def test_with_gold_the_kept_recall_decides() -> None:
    kept = {"kept_recall": Measured(0.9, 0.85, 0.95), "overlap": Measured(0.1, 0.1, 0.1)}
    good = judge("de", language(100, 100, **kept), SETTINGS)
    assert good.level == "ship" and "keeps 90.0 % (85.0 to 95.0) of the teacher's recall at 10" in good.why
    assert judge("de", language(100, 50, **kept), SETTINGS).level == "ship", "as many as are needed"
    assert judge("de", language(100, 49, **kept), SETTINGS).level == "do not ship", "too few have gold documents"
    few = judge("de", language(20, 20, **kept), SETTINGS)
    assert few.level == "ship with care" and "only 20 queries" in few.why, "all have"


@pytest.mark.parametrize(("queries", "level"), [(49, "ship with care"), (50, "ship")])
def test_few_queries_ship_with_care_at_best(queries: int, level: str) -> None:
    verdict = judge("de", language(queries), SETTINGS)
    assert verdict.level == level and (f"only {queries} queries" in verdict.why) is (level != "ship")
    assert bool(verdict.advice) is (level != "ship")
    bad = judge("de", language(queries, first_found=Measured(0.1, 0.1, 0.1)), SETTINGS)
    assert bad.level == "do not ship" and "only" not in bad.why


@pytest.mark.parametrize(
    ("score", "advice"),
    [
        (Measured(0.95, 0.85, 0.99), "the interval is wide"),
        (Measured(0.9, 0.85, 0.95), "the interval is wide"),
        (Measured(0.85, 0.6, 0.99), "the interval is wide"),
        (Measured(0.79, 0.7, 0.85), "train on more de pairs"),
        (Measured(0.45, 0.4, 0.5), "train on more de pairs"),
        (Measured(0.44, 0.4, 0.5), "isogloss add RUN de PAIRS"),
    ],
)
def test_each_refusal_says_what_to_do(score: Measured, advice: str) -> None:
    verdict = judge("de", language(first_found=score), SETTINGS)
    assert advice in verdict.advice
    own = judge("en", language(first_found=score), SETTINGS, of_teacher=True)
    assert own.level == verdict.level and "keep using the teacher" in own.advice


def test_the_index_ships_as_its_worst_language() -> None:
    good, care, bad = (Verdict(level, "why") for level in ("ship", "ship with care", "do not ship"))
    assert overall({"de": good, "fr": good}) == Verdict("ship", "de and fr pass")
    mixed = overall({"de": good, "fr": care})
    assert mixed.level == "ship with care" and mixed.why == "fr passes with care" and mixed.advice
    failing = overall({"ru": bad, "fr": care, "de": good})
    assert failing.level == "do not ship" and failing.why == "ru fails"
    assert failing.advice == "train on more pairs, or leave it out: --languages de,fr"
    assert overall({"ru": bad, "ar": bad}).advice == "train on more pairs"
    assert "them out" in overall({"ru": bad, "ar": bad, "de": good}).advice

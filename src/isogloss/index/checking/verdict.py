"""Whether a student can serve an index, language by language, and what to do if not.

A score passes if the lower end of its interval reaches the minimum, and passes with care if it is at most `care` below. With
gold documents the kept recall decides: how often right answers are still found. Without them, two scores stand for it: whether
the teacher's first result is still found, and how many of its results are; the worse one decides. With few queries, a language
ships with care at best. The index ships if every language does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from isogloss.amounts import amount, listed
from isogloss.config.index_check import IndexCheckSettings
from isogloss.index.checking.agreement import LanguageAgreement, Measured

Level = Literal["ship", "ship with care", "do not ship"]
LEVELS: tuple[Level, ...] = ("ship", "ship with care", "do not ship")  # from best to worst
TOLERANCE = 1e-9  # rounding: a score of exactly the minimum passes
IN_WORDS = {
    "kept_recall": "keeps {share} of the teacher's recall at {k}",
    "first_found": "finds the teacher's first result among its first {k} for {share} of the queries",
    "overlap": "finds {share} of the teacher's first {k} results",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A level, a sentence that says why, and one that says what to do; `advice` is empty if there is nothing to do."""

    level: Level
    why: str
    advice: str = ""


def worst(levels: Sequence[Level]) -> Level:
    """The worst of some levels."""
    return max(levels, key=LEVELS.index)


def criteria(found: LanguageAgreement, settings: IndexCheckSettings) -> dict[str, float]:
    """The scores that decide, and their minimums: gold documents decide if enough queries have some."""
    if found.judged and found.judged >= min(found.queries, settings.min_queries):
        return {"kept_recall": settings.min_kept_recall}
    return {"first_found": settings.min_first_found, "overlap": settings.min_overlap}


def level_of(score: Measured, minimum: float, care: float) -> Level:
    """The level of one score."""
    if score.low >= minimum - TOLERANCE:
        return "ship"
    return "ship with care" if score.low >= minimum - care - TOLERANCE else "do not ship"


def judge(language: str, found: LanguageAgreement, settings: IndexCheckSettings, of_teacher: bool = False) -> Verdict:
    """The verdict on one language; `of_teacher`: it is the one that the teacher speaks."""
    minimums = criteria(found, settings)
    levels = {name: level_of(found.scores[name], minimum, settings.care) for name, minimum in minimums.items()}
    level = worst(list(levels.values()))
    deciding = min(minimums, key=lambda name: (-LEVELS.index(levels[name]), found.scores[name].low - minimums[name]))
    why = _why(deciding, found.scores[deciding], minimums[deciding], level, settings)
    counted = found.judged if "kept_recall" in minimums else found.queries
    if level == "ship" and counted < settings.min_queries:
        few = f"{why}, but that is measured on only {amount(counted, 'query', 'queries')}"
        return Verdict("ship with care", few, f"check {language} with {settings.min_queries} queries or more")
    if of_teacher:
        return Verdict(level, why, "" if level == "ship" else f"keep using the teacher for queries in {language}")
    return Verdict(level, why, _advice(language, level, found.scores[deciding], minimums[deciding], settings.care, counted))


def overall(languages: Mapping[str, Verdict]) -> Verdict:
    """The verdict on all languages together."""
    level = worst([one.level for one in languages.values()])
    by_level = {name: [code for code, one in languages.items() if one.level == name] for name in LEVELS}
    good, bad = [*by_level[LEVELS[0]], *by_level[LEVELS[1]]], by_level[LEVELS[2]]
    if level == "ship":
        return Verdict(level, f"{listed(good)} pass{'' if len(good) > 1 else 'es'}")
    if level == "ship with care":
        why = f"{listed(by_level[level])} pass{'' if len(by_level[level]) > 1 else 'es'} with care"
        return Verdict(level, why, "read what is said about these languages before you decide")
    advice = f"train on more pairs, or leave {'them' if len(bad) > 1 else 'it'} out: --languages {','.join(sorted(good))}"
    return Verdict(level, f"{listed(bad)} fail{'' if len(bad) > 1 else 's'}", advice if good else "train on more pairs")


def _why(name: str, score: Measured, minimum: float, level: Level, settings: IndexCheckSettings) -> str:
    share = f"{100 * score.value:.1f} % ({100 * score.low:.1f} to {100 * score.high:.1f})"
    asked = f"the minimum is {100 * minimum:g} %"
    if level != "ship":
        asked += f", with care {100 * (minimum - settings.care):g} %"
    return f"{IN_WORDS[name].format(share=share, k=settings.k)}; {asked}"


def _advice(language: str, level: Level, score: Measured, minimum: float, care: float, counted: int) -> str:
    """What to do about a language that does not simply ship."""
    if level == "ship":
        return ""
    passing = minimum if level == "ship with care" else minimum - care
    if score.value >= passing:
        return f"the interval is wide: check {language} with more than {amount(counted, 'query', 'queries')}"
    if score.value < minimum / 2:
        return f"was the student trained on {language}? Add it: isogloss add RUN {language} PAIRS"
    return f"train on more {language} pairs, best on queries like yours, or longer"

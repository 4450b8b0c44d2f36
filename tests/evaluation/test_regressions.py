"""What is worse than before, by definition: averages, languages, and what chance explains."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.evaluation.alignment import AlignmentEvaluator, LanguageResult, PerQuery
from isogloss.evaluation.bootstrap import share
from isogloss.evaluation.compare import Outcome, TaskScore
from isogloss.evaluation.regressions import in_words, query_regressions, regressions
from isogloss.evaluation.tasks.retrieval import MAIN
from isogloss.types import Bitext, LanguageScores, Pair
from tiny import KnownVectors


def answers(by_language: dict[str, Sequence[float]], score: str = "to_source") -> tuple[LanguageResult, ...]:
    """Of one query for each source sentence; the other scores stay as they are."""
    found = []
    for language, right in by_language.items():
        values, rows = np.array(right, dtype=float), np.arange(len(right))
        items = {name: PerQuery(np.ones(len(right)), rows) for name in ("to_source", "from_source")} | {
            score: PerQuery(values, rows)
        }
        found.append(LanguageResult(LanguageScores(language, len(right), None, 0.0, 0.0, None), items))
    return tuple(found)


def right(wrong: int, count: int = 100) -> list[float]:
    return [0.0] * wrong + [1.0] * (count - wrong)


def test_a_language_must_lose_more_than_one_of_many_would_by_chance() -> None:
    """Five lost and none gained are √5 standard errors: clear for a single language, not for one of twelve."""
    names = ["de", *(f"l{number}" for number in range(11))]
    for languages, clear in ((names[:1], True), (names, False)):
        before = answers({name: right(0) for name in languages})
        found = regressions("x", before, answers({name: right(5 if name == "de" else 0) for name in languages}))
        (german,) = (one for one in found if one.language == "de")
        assert german.standard_errors == pytest.approx(math.sqrt(5)) and german.clear is clear
        assert (german.before, german.after) == (1.0, 0.95)


def test_sentences_that_are_hard_in_every_language_count_once() -> None:
    """The same three of a hundred sentences lost in each of four languages tell as little as three lost in one."""
    before = answers({name: right(0) for name in "abcd"})
    together = regressions("x", before, answers({name: right(3) for name in "abcd"}))
    apart = regressions(
        "x", before, answers({name: np.roll(right(3), 20 * place).tolist() for place, name in enumerate("abcd")})
    )
    assert together[0].language == apart[0].language == "average" and together[0].after == apart[0].after
    assert together[0].standard_errors == pytest.approx(math.sqrt(3)) and not together[0].clear
    assert apart[0].standard_errors == pytest.approx(math.sqrt(12)) and apart[0].clear


outcomes = st.lists(st.integers(0, 1), min_size=12, max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(outcomes, outcomes), min_size=1, max_size=4))
def test_all_that_is_lower_is_there_and_nothing_else(by_language: list[tuple[list[int], list[int]]]) -> None:
    names = [f"l{place}" for place in range(len(by_language))]
    before, after = (answers(dict(zip(names, one, strict=True))) for one in zip(*by_language, strict=True))
    found = {one.language: one for one in regressions("x", before, after)}
    level = NormalDist().inv_cdf(1 - NormalDist().cdf(-2) / len(names))
    for name, (old, new) in zip(names, by_language, strict=True):
        lost, gained = sum(a > b for a, b in zip(old, new, strict=True)), sum(a < b for a, b in zip(old, new, strict=True))
        assert (name in found) == (lost > gained)
        if name in found:
            assert found[name].clear == ((lost - gained) / math.sqrt(lost + gained) > level)
    sums = [sum(map(sum, one)) for one in zip(*by_language, strict=True)]
    assert ("average" in found) == (sums[1] < sums[0])


def test_the_sentence_has_what_is_clear_and_averages_and_languages_within_noise() -> None:
    before = answers({"de": right(0), "ru": right(0)})
    clear = regressions("the bridge alone", before, answers({"de": right(20), "ru": right(1)}))
    assert in_words(clear) == (
        "on the held-out pairs the model is worse than the bridge alone: sources found by their translation 89.5% (was 100.0%)"
        " on average, sources found by their translation 80.0% (was 100.0%) in de; lower than the bridge alone, within noise:"
        " single scores in ru"
    )
    noise = regressions("the bridge alone", before, answers({"de": right(1), "ru": right(0)}))
    assert in_words(noise) == (
        "on the held-out pairs the model is lower than the bridge alone, within noise: sources found by their translation 99.5%"
        " (was 100.0%) on average, single scores in de"
    )
    assert [one.as_dict()["clear"] for one in noise] == [False, False] and in_words([]) == ""


def test_no_language_that_lost_is_left_out_of_the_sentence_but_a_long_list_is_cut() -> None:
    """The average is as before: what half of the languages lose, the others gain."""
    for count, said in (
        (4, "l0, l1, l2 and l3"),
        (8, "l0, l1, l2, l3, l4, l5, l6 and l7"),
        (9, "l0, l1, l2, l3, l4, l5, l6, l7 and 1 more"),
    ):
        before, after = (answers({f"l{n}": right(lost[n < count]) for n in range(2 * count)}) for lost in ((1, 0), (0, 1)))
        assert in_words(regressions("x", before, after)) == (
            f"on the held-out pairs the model is lower than x, within noise: single scores in {said}"
        )


def test_a_cosine_counts_from_what_is_shown() -> None:
    before = answers({"de": [0.5] * 9}, "cosine")
    assert not regressions("x", before, answers({"de": [0.496] * 9}, "cosine"))
    (average, german) = regressions("x", before, answers({"de": [0.49] * 9}, "cosine"))
    assert str(german) == "cosine to the teacher 0.49 (was 0.50) in de" and german.clear and average.clear


def test_answers_are_what_the_scores_count() -> None:
    """A translation of two sentences, one of which is not held out, belongs to the one that is."""
    pairs = [Pair(f"s{n}", f"t{n}", "de", "x", "test" if n < 4 else "train") for n in range(8)]
    pairs += [Pair("s5", "t0", "de", "x", "train"), Pair("a", "t1", "de", "x", "train")]
    questions = AlignmentEvaluator(Bitext.of(pairs), max_candidates=4)
    random, texts = np.random.default_rng(3), questions.texts
    student, teacher = (KnownVectors(dict(zip(texts, random.normal(size=(len(texts), 3)), strict=True))) for _ in "ab")
    questions.set_teacher(teacher)
    (german,) = questions.score(student.encode(texts))
    assert set(german.per_query) == {"teacher_index", "to_source", "from_source", "cosine"}
    for name, items in german.per_query.items():
        assert getattr(german.scores, name) == pytest.approx(items.values.mean())
        assert [questions.sources[row] for row in items.sources] == ["s0", "s1", "s2", "s3"]
    assert questions(student).scores == (german.scores,)


def asked(table: str, by_language: dict[str, tuple[str, Sequence[float]]]) -> Outcome:
    """Answers to queries, by language: the name of the queries, and which found their document."""
    scores = [
        TaskScore(table, language, MAIN, share(np.array(found), unit), averaged=language not in ("en", "teacher"))
        for language, (unit, found) in by_language.items()
    ]
    own_index = TaskScore("another table", "de", MAIN, share(np.ones(3), "u"))
    return Outcome("stage", (*scores, own_index))


def test_queries_that_find_less_are_named_by_language_and_on_average() -> None:
    """The same three queries lost in two languages count once, and what English loses is not part of the average."""
    before = asked("index", {name: ("u", right(0)) for name in ("de", "ru", "en", "teacher")})
    after = asked("index", {"de": ("u", right(3)), "ru": ("u", right(3)), "en": ("u", right(9)), "teacher": ("u", right(0))})
    average, *languages = found = query_regressions("the bridge alone", before, after)
    assert [one.language for one in found] == ["average", "de", "ru"] and {one.before for one in found} == {1.0}
    assert [one.standard_errors for one in found] == [pytest.approx(math.sqrt(3))] * 3 and not average.clear
    assert all(one.score == MAIN and one.after == pytest.approx(0.97) for one in languages)
    assert in_words(found) == (
        "on the queries the model is lower than the bridge alone, within noise: documents found by queries 97.0% (was 100.0%)"
        " on average, single scores in de and ru"
    )
    both = [*regressions("x", answers({"de": right(0)}), answers({"de": right(1)})), *found]
    assert in_words(both).startswith("on the held-out pairs and the queries the model is lower than x, within noise: sources")


def test_other_queries_in_another_language_are_other_observations() -> None:
    before = asked("index", {"de": ("u", right(0)), "ru": ("v", right(0, 50))})
    after = asked("index", {"de": ("u", right(3)), "ru": ("v", right(3, 50))})
    average = query_regressions("x", before, after)[0]
    assert average.after == pytest.approx((0.97 + 0.94) / 2)
    assert average.standard_errors == pytest.approx((0.03 + 0.06) / math.sqrt(3 * (0.01**2 + 0.02**2)))
    assert not query_regressions("x", after, before)


def test_queries_in_the_language_of_the_index_alone_are_compared() -> None:
    before, after = (asked("index", {"en": ("u", right(wrong)), "teacher": ("u", right(wrong))}) for wrong in (0, 20))
    assert [(one.language, one.clear) for one in query_regressions("x", before, after)] == [("average", True), ("en", True)]

"""Which scores of a model are lower than at an earlier stage, per language, and whether that is more than noise.

Both stages have the same queries, so differences are paired, and queries of one source sentence count as one observation
(`training.selection` has the formula). An average over languages is clearly worse at two standard errors. With many languages
some lose as much by chance, so for a single language the significance level is divided by their number (Bonferroni).
Differences within noise are noted as such. `regressions` compares scores on held-out pairs, `query_regressions` those on
documents and queries.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from isogloss.amounts import listed
from isogloss.evaluation.alignment import LanguageResult, PerQuery
from isogloss.evaluation.bootstrap import Sums
from isogloss.evaluation.compare import Outcome, TaskScore
from isogloss.evaluation.metrics import Doubles
from isogloss.evaluation.tasks.retrieval import MAIN
from isogloss.training.selection import STANDARD_ERRORS, standard_errors

AVERAGE = "average"
TOLERANCE = 1e-9  # rounding
SMALLEST = {"cosine": 0.005}  # cosines are shown with two digits
IN_WORDS = {
    "teacher_index": "found in the teacher's index",
    "to_source": "sources found by their translation",
    "from_source": "translations found by their source",
    "cosine": "cosine to the teacher",
    MAIN: "documents found by queries",
}
MOST_NAMES = 8  # languages that a sentence lists


@dataclass(frozen=True, slots=True)
class Regression:
    """A score that is lower than at an earlier stage. `language` may be "average"; `clear`: by more than noise."""

    stage: str
    language: str
    score: str
    before: float
    after: float
    standard_errors: float
    clear: bool

    def __str__(self) -> str:
        form = "{:.2f} (was {:.2f})" if self.score == "cosine" else "{:.1%} (was {:.1%})"
        where = "on average" if self.language == AVERAGE else f"in {self.language}"
        return f"{IN_WORDS[self.score]} {form.format(self.after, self.before)} {where}"

    def as_dict(self) -> dict[str, Any]:
        """As it is written to results.json."""
        return asdict(self) | {name: round(getattr(self, name), 4) for name in ("before", "after", "standard_errors")}


def regressions(stage: str, before: Sequence[LanguageResult], after: Sequence[LanguageResult]) -> list[Regression]:
    """All scores of `after` that are lower than those of `before`, an earlier stage; averages first."""
    found: list[Regression] = []
    sources = 1 + max(int(own.sources.max()) for one in after for own in one.per_query.values())
    languages = [one.scores.language for one in after]
    for score in IN_WORDS:
        if any(score not in one.per_query for one in (*before, *after)):
            continue
        lost = [_lost(old.per_query[score], new.per_query[score], sources) for old, new in zip(before, after, strict=True)]
        means = [[float(one.per_query[score].values.mean()) for one in results] for results in (before, after)]
        found += _lower(stage, score, languages, means, lost)
    return sorted(found, key=lambda one: one.language != AVERAGE)


def query_regressions(stage: str, before: Outcome, after: Outcome) -> list[Regression]:
    """Languages whose queries find fewer documents than at an earlier stage, and the average over languages if it is lower.

    Counted is what the first table of the retrieval task has: recall at 1, in the teacher's index if there is one.
    """
    table = after.measured[0].table
    pairs = [pair for pair in zip(before.measured, after.measured, strict=True) if pair[1].table == table]
    pairs = [pair for pair in pairs if pair[1].averaged] or pairs[:1]  # queries in the language of the index alone
    starts: dict[tuple[str, int], int] = {}  # the same queries in other languages have the same rows
    for _, new in pairs:
        starts.setdefault(_queries(new), sum(count for _, count in starts))
    answers = [[PerQuery(_values(one), starts[_queries(one)] + np.arange(len(one.sample))) for one in pair] for pair in pairs]
    lost = [_lost(old, new, sum(count for _, count in starts)) for old, new in answers]
    means = [[float(pair[place].values.mean()) for pair in answers] for place in (0, 1)]
    return _lower(stage, MAIN, [new.column for _, new in pairs], means, lost)


def _lower(
    stage: str, score: str, languages: Sequence[str], means: Sequence[Sequence[float]], lost: Sequence[Doubles]
) -> list[Regression]:
    """The average and the languages with a lower score; `means` are those before and after, by language."""
    limit = _errors_for_one_of(len(languages))
    was, now = (float(np.mean(column)) for column in means)
    rows = [(AVERAGE, was, now, standard_errors(np.sum(lost, axis=0) / len(lost)), STANDARD_ERRORS)]
    for place, language in enumerate(languages):
        rows.append((language, means[0][place], means[1][place], standard_errors(lost[place]), limit))
    return [
        Regression(stage, score=score, language=language, before=was, after=now, standard_errors=errors, clear=errors > clear)
        for language, was, now, errors, clear in rows
        if was - now > SMALLEST.get(score, TOLERANCE)
    ]


def in_words(found: Sequence[Regression]) -> str:
    """A sentence on what is lower: clear losses and averages with their scores, other languages by name; or nothing."""
    clauses = []
    for stage in dict.fromkeys(one.stage for one in found):
        mine = [one for one in found if one.stage == stage]
        clear = [str(one) for one in mine if one.clear]
        noise = [str(one) for one in mine if not one.clear and one.language == AVERAGE]
        noise += _names([one.language for one in mine if not one.clear and one.language != AVERAGE])
        clauses += [f"worse than {stage}: {', '.join(clear)}"] if clear else []
        clauses += [f"lower than {stage}, within noise: {', '.join(noise)}"] if noise else []
    where = {one.score == MAIN for one in found}
    measured = " and the ".join(name for name, queries in (("held-out pairs", False), ("queries", True)) if queries in where)
    return f"on the {measured} the model is {'; '.join(clauses)}" if clauses else ""


def _names(languages: Sequence[str]) -> list[str]:
    """Languages with losses that are not shown with their scores."""
    names = sorted(set(languages))
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return [f"single scores in {listed([*names[:MOST_NAMES], *more])}"] if names else []


def _values(score: TaskScore) -> Doubles:
    """One value for each query, of a score that is their mean."""
    ((_, metric),) = score.sample.terms
    assert isinstance(metric, Sums)
    values: Doubles = metric.columns[:, 0]
    return values


def _queries(score: TaskScore) -> tuple[str, int]:
    """A name and the number of queries: the same for the same queries in all languages."""
    ((_, metric),) = score.sample.terms
    (queries,) = metric.units
    return queries


def _lost(before: PerQuery, after: PerQuery, sources: int) -> Doubles:
    """The contribution of each source sentence to the loss of the mean."""
    return np.bincount(before.sources, (before.values - after.values) / len(before.values), sources).astype(np.float64)


def _errors_for_one_of(languages: int) -> float:
    """How many standard errors one of several languages must lose to be as significant as a single one at two."""
    normal = NormalDist()
    return normal.inv_cdf(1 - normal.cdf(-STANDARD_ERRORS) / languages)

"""Which scores of a model are lower than at an earlier stage, per language, and whether that is more than noise.

Both stages have the same queries, so differences are paired, and queries of one source sentence count as one observation
(`training.selection` has the formula). An average over languages is clearly worse at two standard errors. With many languages
some lose as much by chance, so for a single language the significance level is divided by their number (Bonferroni).
Differences within noise are noted as such.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from isogloss.evaluation.alignment import LanguageResult, PerQuery
from isogloss.evaluation.metrics import Doubles
from isogloss.training.selection import STANDARD_ERRORS, standard_errors

AVERAGE = "average"
TOLERANCE = 1e-9  # rounding
SMALLEST = {"cosine": 0.005}  # cosines are shown with two digits
IN_WORDS = {
    "teacher_index": "found in the teacher's index",
    "to_source": "sources found by their translation",
    "from_source": "translations found by their source",
    "cosine": "cosine to the teacher",
}


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
    limit = _errors_for_one_of(len(after))
    sources = 1 + max(int(own.sources.max()) for one in after for own in one.per_query.values())
    for score in IN_WORDS:
        if any(score not in one.per_query for one in (*before, *after)):
            continue
        lost = [_lost(old.per_query[score], new.per_query[score], sources) for old, new in zip(before, after, strict=True)]
        means = [[float(one.per_query[score].values.mean()) for one in results] for results in (before, after)]
        was, now = (float(np.mean(column)) for column in means)
        rows = [(AVERAGE, was, now, standard_errors(np.sum(lost, axis=0) / len(lost)), STANDARD_ERRORS)]
        for place, one in enumerate(after):
            rows.append((one.scores.language, means[0][place], means[1][place], standard_errors(lost[place]), limit))
        for language, was, now, errors, clear in rows:
            if was - now > SMALLEST.get(score, TOLERANCE):
                found.append(Regression(stage, language, score, was, now, errors, errors > clear))
    return sorted(found, key=lambda one: one.language != AVERAGE)


def in_words(found: Sequence[Regression]) -> str:
    """A sentence on what is clearly lower, and on averages that are lower within noise; empty if there is neither."""
    clauses = []
    for stage in dict.fromkeys(one.stage for one in found):
        mine = [one for one in found if one.stage == stage]
        clear = [str(one) for one in mine if one.clear]
        noise = [str(one) for one in mine if not one.clear and one.language == AVERAGE]
        clauses += [f"worse than {stage}: {', '.join(clear)}"] if clear else []
        clauses += [f"lower than {stage}, within noise: {', '.join(noise)}"] if noise else []
    return f"on the held-out pairs the model is {'; '.join(clauses)}" if clauses else ""


def _lost(before: PerQuery, after: PerQuery, sources: int) -> Doubles:
    """The contribution of each source sentence to the loss of the mean."""
    return np.bincount(before.sources, (before.values - after.values) / len(before.values), sources).astype(np.float64)


def _errors_for_one_of(languages: int) -> float:
    """How many standard errors one of several languages must lose to be as significant as a single one at two."""
    normal = NormalDist()
    return normal.inv_cdf(1 - normal.cdf(-STANDARD_ERRORS) / languages)

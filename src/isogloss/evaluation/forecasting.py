"""Forecasts of scores for more pairs than were trained on, from what some small runs reached.

`learning_curve.py` has the curve; `runs/forecast.py` makes the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isogloss.amounts import amount
from isogloss.config.forecasting import ForecastSettings
from isogloss.errors import IsoglossError
from isogloss.evaluation.learning_curve import FEWEST, Points, fit, interval, misfit, resampled
from isogloss.evaluation.metrics import Doubles

SCORES = {"index": "teacher_index", "to-source": "to_source", "from-source": "from_source", "cosine": "cosine"}
MULTIPLES = (1, 2, 4, 10)  # of all pairs, to forecast the score for
FAR = 30  # times the largest run: a forecast beyond is a guess
MORE_SIZES = "name other sizes, such as --sizes 500,1000,2000,4000, or fewer --languages"


class Measured(NamedTuple):
    """One run: the most pairs per language, all its training pairs, its seconds, and the scores of its languages.

    `scores` are, by language, the number of pairs of that language and each score with its standard error.
    """

    limit: int
    pairs: int
    seconds: float
    scores: dict[str, dict[str, Any]]


class Estimate(NamedTuple):
    """A value with a 95 % interval. Pairs that no number is enough for are infinite."""

    value: float
    low: float
    high: float

    def as_json(self) -> list[float | None]:
        """Without infinite numbers, which JSON does not have."""
        return [round(one, 4) if np.isfinite(one) else None for one in self]


@dataclass(frozen=True, slots=True)
class LanguageForecast:
    """The forecast of one language. `enough` is the share of likely curves that reach the wanted score. Scores are shares."""

    language: str
    points: Points
    available: int
    at: dict[int, Estimate]
    level: Estimate
    needed: Estimate
    enough: float
    misfit: float
    seconds: float | None  # of a run with the needed pairs in every language

    @property
    def is_reachable(self) -> bool:
        """Whether the likeliest curve reaches the wanted score."""
        return bool(np.isfinite(self.needed.value))

    @property
    def is_far(self) -> bool:
        """Whether more pairs are needed than small runs can say much about."""
        return self.is_reachable and self.needed.value > FAR * self.points.sizes.max()

    def as_dict(self) -> dict[str, Any]:
        """For forecast.json."""
        return {
            "measured": [
                {"pairs": int(size), "score": round(float(score), 4), "standard_error": round(float(error), 4)}
                for size, score, error in zip(*self.points, strict=True)
            ],
            "pairs_there_are": self.available,
            "forecast": {str(size): one.as_json() for size, one in self.at.items()},
            "levels_off_at": self.level.as_json(),
            "reachable": self.is_reachable,
            "pairs_needed": self.needed.as_json(),
            "share_of_curves_that_reach_it": round(self.enough, 3),
            "seconds": None if self.seconds is None else round(self.seconds),
            "misfit": round(self.misfit, 2),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecasts of all languages; `unknown` has the languages without one, and why."""

    folder: Path
    settings: ForecastSettings
    languages: dict[str, LanguageForecast]
    unknown: dict[str, str]
    runs: tuple[Measured, ...]

    def as_dict(self) -> dict[str, Any]:
        """The content of forecast.json. Estimates are value, lower and upper end; null is an infinite number."""
        return {
            "score": self.settings.score,
            "wanted": self.settings.wanted / 100,
            "languages": {language: own.as_dict() for language, own in self.languages.items()},
            "unknown": self.unknown,
            "runs": [{"pairs_per_language": one.limit, "pairs": one.pairs, "seconds": one.seconds} for one in self.runs],
        }


def extrapolate(
    runs: Sequence[Measured], counts: Mapping[str, int], settings: ForecastSettings, seed: int, folder: Path
) -> Forecast:
    """The forecasts from what was measured; `counts` are all pairs by language."""
    languages, unknown = dict[str, LanguageForecast](), dict[str, str]()
    sizes = settings.at or tuple(multiple * max(counts.values()) for multiple in MULTIPLES)
    lowest = -1.0 if settings.score == "cosine" else 0.0
    for language, available in counts.items():
        points, reason = _points(runs, language, SCORES[settings.score])
        if points is None:
            unknown[language] = reason
            continue
        curve = fit(points)
        draws = resampled(points, curve, settings.resamples, seed)
        wanted = settings.wanted / 100
        needed = Estimate(float(curve.needed(wanted)[0]), *interval(draws.needed(wanted)))
        languages[language] = LanguageForecast(
            language=language,
            points=points,
            available=available,
            at={size: _score(curve.at(size), draws.at(size), lowest) for size in sizes},
            level=_score(curve.level, draws.level, lowest),
            needed=needed,
            enough=float(np.isfinite(draws.needed(wanted)).mean()),
            misfit=misfit(points, curve),
            seconds=seconds_for(runs, needed.value * len(runs[-1].scores)) if np.isfinite(needed.value) else None,
        )
    if not languages:
        raise IsoglossError("; ".join(f"{language}: {reason}" for language, reason in unknown.items()), hint=MORE_SIZES)
    return Forecast(folder, settings, languages, unknown, tuple(runs))


def _score(fitted: Doubles, drawn: Doubles, lowest: float) -> Estimate:
    """A score of the fitted curve with the interval of the others; no score is below `lowest`."""
    return Estimate(*(max(one, lowest) for one in (float(fitted[0]), *interval(drawn))))


def _points(runs: Sequence[Measured], language: str, score: str) -> tuple[Points | None, str]:
    """The distinct sizes of a language with their scores; the reason if there are too few for a curve."""
    own = {one.scores[language]["pairs"]: one.scores[language] for one in runs if language in one.scores}
    if any(score not in one for one in own.values()):
        return None, "the student's embeddings have another size than the teacher's, so its index cannot be searched"
    if len(own) < FEWEST:
        most = max(own, default=0)
        return None, f"the runs have {amount(len(own), 'size')} of its pairs (at most {most:,}); a curve needs {FEWEST}"
    measured = [(size, *own[size][score]) for size in sorted(own)]
    return Points(*(np.array(column, dtype=np.float64) for column in zip(*measured, strict=True))), ""


def seconds_for(runs: Sequence[Measured], pairs: float) -> float:
    """The seconds of a run with so many pairs in all: a line through those of the runs."""
    counted, spent = np.array([one.pairs for one in runs], float), np.array([one.seconds for one in runs])
    if len(set(counted)) < 2:
        return float(spent.mean())
    rate, start = np.polyfit(counted, spent, 1)
    return float(max(start, 0) + max(rate, 0) * pairs)

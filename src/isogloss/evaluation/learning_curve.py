"""A learning curve: the score as a function of the number of training pairs, fitted on a few small runs.

    score(n) = level − drop · (n / middle)^(−rate)

`level` is where more pairs stop helping, `rate` is how soon, `middle` is the geometric mean of the sizes that were measured.
Power laws describe how test scores grow with data over several orders of magnitude (Hestness et al. 2017). The fit is weighted
by the standard errors of the scores. For a fixed rate it is linear, so its exact solution within the bounds (0 ≤ drop,
level ≤ 1) is known; a grid of rates gives the rest, for thousands of resamples at once and without starting values.

The uncertainty is that of a parametric bootstrap: scores drawn around the fitted curve are fitted again. Few points allow many
curves, and the draws show it: far from the measured sizes, intervals are wide.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from isogloss.errors import IsoglossError
from isogloss.evaluation.metrics import Doubles

RATES = np.geomspace(0.05, 2.0, 160)  # slower than 0.05 is no growth, faster than 2 is over before it is measured
HIGHEST = 1.0  # of a share or a cosine
FEWEST = 3  # points; the curve has as many parameters
CONFIDENCE = 0.95


class Points(NamedTuple):
    """What was measured: the number of pairs, the score, and the standard error of the score, by run."""

    sizes: Doubles
    scores: Doubles
    errors: Doubles


@dataclass(frozen=True, slots=True)
class Curves:
    """One curve or many; the parameters have one value per curve."""

    middle: float
    level: Doubles
    drop: Doubles
    rate: Doubles

    def at(self, size: float) -> Doubles:
        """The score of each curve with this many pairs."""
        values: Doubles = self.level - self.drop * (size / self.middle) ** -self.rate
        return values

    def needed(self, wanted: float) -> Doubles:
        """The pairs that each curve needs for this score; infinite if it levels off below."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            size = self.middle * (self.drop / (self.level - wanted)) ** (1 / self.rate)
        values: Doubles = np.where(self.level > wanted, size, np.inf)
        return values

    def first(self) -> Self:
        """The first curve alone."""
        return type(self)(self.middle, self.level[:1], self.drop[:1], self.rate[:1])


def fit(points: Points, scores: Doubles | None = None) -> Curves:
    """The curve through the points, or one for each row of `scores` (curves × points) instead of theirs."""
    if len(np.unique(points.sizes)) < FEWEST:
        raise IsoglossError(f"a curve needs at least {FEWEST} sizes", hint="measure more sizes")
    measured = np.atleast_2d(points.scores if scores is None else scores)
    middle = float(np.exp(np.log(points.sizes).mean()))
    weights = 1 / np.square(points.errors)
    best = np.full(len(measured), np.inf)
    level, drop, rate = (np.zeros(len(measured)) for _ in range(3))
    for one in RATES:
        shape = (points.sizes / middle) ** -one
        tried = _linear_fit(shape, measured, weights)
        better = tried[2] < best
        best[better] = tried[2][better]
        level[better], drop[better], rate[better] = tried[0][better], tried[1][better], one
    return Curves(middle, level, drop, rate)


def _linear_fit(shape: Doubles, scores: Doubles, weights: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Level, drop and weighted squared error of level − drop · shape, for each row of scores."""
    mass, first, second = weights.sum(), weights @ shape, weights @ np.square(shape)
    scored, both = scores @ weights, scores @ (weights * shape)
    free_drop = (first * scored / mass - both) / (second - first**2 / mass)
    choices = [
        ((scored + free_drop * first) / mass, free_drop),
        (np.minimum(scored / mass, HIGHEST), np.zeros(len(scores))),
        (np.full(len(scores), HIGHEST), np.maximum((HIGHEST * first - both) / second, 0)),
    ]
    level, drop = (np.array(values) for values in zip(*choices, strict=True))
    error = np.square(scores[None] - level[:, :, None] + drop[:, :, None] * shape) @ weights
    error[0, (level[0] > HIGHEST) | (drop[0] < 0)] = np.inf
    best = error.argmin(axis=0)
    rows = np.arange(len(scores))
    return level[best, rows], drop[best, rows], error[best, rows]


def misfit(points: Points, curve: Curves) -> float:
    """How much larger the distances to the curve are than the standard errors explain; 1 if they explain them."""
    fitted = np.array([curve.at(size)[0] for size in points.sizes])
    free = max(len(points.sizes) - FEWEST, 1)
    return float(max(1.0, np.sqrt((np.square((points.scores - fitted) / points.errors)).sum() / free)))


def resampled(points: Points, curve: Curves, draws: int, seed: int) -> Curves:
    """Curves fitted to scores that are drawn around `curve`, with errors that explain the distances of the points to it."""
    fitted = np.array([curve.at(size)[0] for size in points.sizes])
    noise = np.random.default_rng(seed).standard_normal((draws, len(fitted)))
    return fit(points, fitted + noise * points.errors * misfit(points, curve))


def interval(values: Doubles, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The middle `confidence` of some values, of which any may be infinite."""
    ordered = np.sort(values)
    outside = int(len(ordered) * (1 - confidence) / 2)
    return float(ordered[outside]), float(ordered[-1 - outside])

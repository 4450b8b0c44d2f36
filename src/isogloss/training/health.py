"""Whether a loss is broken, and whether the training was of any use.

`LossWatch` checks the losses of each step and describes what went wrong, and what to do about it. It raises nothing: the
trainer does. Its state is part of a checkpoint. `setback` compares the end of a training with its beginning.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from isogloss.training.selection import STANDARD_ERRORS

CALM_STEPS = 20  # losses that make a median worth comparing with
RECENT_NORMS = 5
NEGLIGIBLE = 1e-3  # a loss below this share of the highest level it ever had is as good as zero
STEEP = 10.0  # a gradient norm this many times the ones before it is the trouble, not its witness
CLEAR_COSINE, CLEAR_SHARE = 0.02, 0.01  # what a mean cosine, or a share of right answers, must lose to be called worse
SCORES_IN_WORDS = {
    "retrieval": "translations found",
    "teacher_index": "found in the teacher's index",
    "cosine": "cosine to the teacher",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, in a sentence, and what to do about it: for an error or a warning."""

    kind: Literal["nan", "exploded", "ignored", "worse"]
    sentence: str
    hint: str

    def __str__(self) -> str:
        return f"{self.sentence}; {self.hint}"


@dataclass(slots=True)
class Course:
    """The recent values of one loss. `low` and `high` are of the running median since the warm-up."""

    recent: deque[float]
    low: float | None = None
    high: float = 0.0
    suspicious: int = 0

    def take_in(self, loss: float) -> None:
        """Remember a value that is as expected."""
        self.recent.append(loss)
        self.suspicious = 0

    def ceiling(self, factor: float) -> float:
        """The loss above which something is wrong, given that the rate is at its peak or past it; infinite if unknown."""
        if len(self.recent) < CALM_STEPS:
            return math.inf
        middle = median(self.recent)
        self.low, self.high = middle if self.low is None else min(self.low, middle), max(self.high, middle)
        # A loss that can be negative has no scale to be measured on, and one that began at zero has none yet.
        return factor * max(self.low, NEGLIGIBLE * self.high) if self.low > 0 else math.inf


class LossWatch:
    """Tells a loss that is lost from one that is only noisy.

    A loss or a gradient that is not finite is a diagnosis at once. A loss has exploded when, after the warm-up, it was
    above `factor` times its lowest running median (of `window` steps) at `patience` checks in a row: one bad batch, or
    nine, is noise, and a slow climb is measured from where it began. Losses under suspicion do not enter the median.
    """

    def __init__(self, warmup_steps: int = 0, factor: float = 20.0, window: int = 200, patience: int = 10) -> None:
        self.warmup_steps, self.factor, self.window, self.patience = warmup_steps, factor, window, patience
        self._courses: dict[str, Course] = {}
        self._norms: deque[float] = deque(maxlen=RECENT_NORMS)

    def check(self, step: int, losses: dict[str, float], gradient_norm: float | None = None) -> Diagnosis | None:
        """Take in the losses of a step (counted from 0) by loss; None if all is well.

        `gradient_norm` is the norm before clipping, if it is known.
        """
        broken = [name for name, loss in losses.items() if not math.isfinite(loss)]
        if broken:
            values = ", ".join(f"{name} became {losses[name]}" for name in broken)
            calm = [name for name in losses if name not in broken]
            beside = f" while {listed(calm)} stayed finite" if calm else ""
            return self._not_finite(step, values + beside, gradient_norm)
        if gradient_norm is not None and not math.isfinite(gradient_norm):
            return self._not_finite(step, f"the gradient's norm became {gradient_norm}, though every loss was finite", None)
        exploded = [name for name, loss in losses.items() if self._exploded(step, name, loss)]
        diagnosis = self._explosion(step, exploded[0], losses[exploded[0]], gradient_norm) if exploded else None
        if gradient_norm is not None:
            self._norms.append(gradient_norm)
        return diagnosis

    @property
    def suspicious(self) -> bool:
        """Whether a loss is above what it may be, and it is not clear yet whether that is noise: no moment to keep."""
        return any(course.suspicious for course in self._courses.values())

    def state_dict(self) -> dict[str, Any]:
        """All that later answers depend on, as plain lists and numbers."""
        courses = {name: asdict(course) | {"recent": list(course.recent)} for name, course in self._courses.items()}
        return {"courses": courses, "norms": list(self._norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        courses = state["courses"].items()
        self._courses = {name: Course(**kept | {"recent": deque(kept["recent"], self.window)}) for name, kept in courses}
        self._norms = deque(state["norms"], RECENT_NORMS)

    def _exploded(self, step: int, name: str, loss: float) -> bool:
        course = self._courses.setdefault(name, Course(deque(maxlen=self.window)))
        if self._rising(step) or loss <= course.ceiling(self.factor):
            course.take_in(loss)
            return False
        course.suspicious += 1
        return course.suspicious >= self.patience

    def _rising(self, step: int) -> bool:
        return step < self.warmup_steps

    def _not_finite(self, step: int, what: str, norm: float | None) -> Diagnosis:
        if not self._courses:
            hint = "nothing was learnt yet, so it is in the weights or the vectors it started from: run isogloss doctor"
        elif self._steepening():
            hint = self._gentler(step)
        else:
            hint = (
                "gradients were calm before, so one batch or the number format is to blame rather than the rate: "
                "look for broken text, or train in float32; if it comes back, lower training.learning_rate"
            )
        return Diagnosis("nan", f"{what} at step {step + 1}{self._circumstances(step, norm)}", hint)

    def _explosion(self, step: int, name: str, loss: float, norm: float | None) -> Diagnosis:
        course = self._courses[name]
        sentence = (
            f"{name} exploded: {loss:.3g} at step {step + 1}, after a running median of {course.low or 0:.3g} at its lowest,"
            f" for {course.suspicious} checks in a row{self._circumstances(step, norm)}"
        )
        return Diagnosis("exploded", sentence, self._gentler(step))

    def _circumstances(self, step: int, norm: float | None) -> str:
        norms = [*self._norms] if norm is None else [*self._norms, norm][-RECENT_NORMS:]
        shown = listed([f"{value:.3g}" for value in norms])
        before = f"; the gradient's norm was {shown} over the last checks" if norms else ""
        return before + ("; the learning rate was still rising" if self._rising(step) else "")

    def _steepening(self) -> bool:
        """Whether gradients had grown before it happened; where they are not known, the rate is the likelier cause."""
        norms = list(self._norms)
        return len(norms) < 2 or norms[-1] > STEEP * median(norms[:-1])

    def _gentler(self, step: int) -> str:
        if self._rising(step):
            return "lower training.learning_rate, or let it rise over more steps: raise training.warmup"
        return "lower training.learning_rate, or training.clip_norm"


def setback(
    before: Mapping[str, float | None], after: Mapping[str, float | None], count: int, where: str, held: bool
) -> Diagnosis | None:
    """What the student lost by training, if it is clearly more than chance; scores are named as in `SCORES_IN_WORDS`.

    A share of right answers among `count` must fall by `CLEAR_SHARE` and by two standard errors of a difference,

        2 · √(2 p (1 − p) / count),

    a mean cosine by `CLEAR_COSINE`. `held` says whether a loss wants the teacher's points themselves.
    """
    lost = []
    for name, words in SCORES_IN_WORDS.items():
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None and was - now > _clearly(name, was, count):
            form = "{:.2f} (it was {:.2f})" if name == "cosine" else "{:.1%} (it was {:.1%})"
            lost.append(f"{words} {form.format(now, was)}")
    if not lost:
        return None
    return Diagnosis("worse", f"training made the student worse on the {where} pairs: {listed(lost)}", better_next(held))


def no_gain(held: bool) -> Diagnosis:
    """For a training none of whose steps was better than the start."""
    sentence = "no step of the training did better on the dev pairs than the student before it, which is kept as it was"
    return Diagnosis("worse", sentence, better_next(held))


def _clearly(name: str, was: float, count: int) -> float:
    if name == "cosine":
        return CLEAR_COSINE
    return max(CLEAR_SHARE, STANDARD_ERRORS * math.sqrt(max(2 * was * (1 - was), 0.0) / max(count, 1)))


def better_next(held: bool) -> str:
    """What to do about a training that lost something; `held` as in `setback`."""
    if held:
        return "lower training.learning_rate, or train for more steps: raise training.epochs"
    return "no loss holds it where the teacher is: add losses.mse, or lower training.learning_rate"


def listed(words: list[str]) -> str:
    """Words as a sentence has them: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

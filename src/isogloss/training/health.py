"""Whether a loss is broken, and whether the training was of any use.

`LossWatch` checks the losses of each step; its state is part of a checkpoint. `setback` compares the dev scores at the end of a
training with those at its beginning. Both return a `Diagnosis`; the trainer raises or logs it.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from isogloss.amounts import listed
from isogloss.training.selection import STANDARD_ERRORS

MEDIAN_STEPS = 20  # losses that a running median needs
RECENT_NORMS = 5
NEGLIGIBLE = 1e-3  # a loss below this share of the highest running median it ever had counts as zero
STEEP = 10.0  # a gradient norm this many times the median of those before it caused the trouble
CLEAR_COSINE, CLEAR_SHARE = 0.02, 0.01  # what a mean cosine, or a share of right answers, must lose to be called worse
SCORES_IN_WORDS = {
    "retrieval": "translations found",
    "teacher_index": "found in the teacher's index",
    "cosine": "cosine to the teacher",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, in a sentence, and what to do about it: for an error or a warning."""

    sentence: str
    hint: str

    def __str__(self) -> str:
        return f"{self.sentence}; {self.hint}"


@dataclass(slots=True)
class LossHistory:
    """The recent values of one loss. `low` and `high` are the extremes of its running median since the warm-up."""

    recent: deque[float]
    low: float | None = None
    high: float = 0.0
    suspicious: int = 0  # steps in a row above the ceiling

    def ceiling(self, factor: float) -> float:
        """The loss above which something is wrong once the warm-up is over; infinite if unknown."""
        if len(self.recent) < MEDIAN_STEPS:
            return math.inf
        middle = median(self.recent)
        self.low, self.high = middle if self.low is None else min(self.low, middle), max(self.high, middle)
        # A loss that can be negative has no scale, and one that began at zero has none yet.
        return factor * max(self.low, NEGLIGIBLE * self.high) if self.low > 0 else math.inf


class LossWatch:
    """Distinguishes a broken loss from a noisy one.

    A loss or a gradient that is not finite is reported immediately. A loss has exploded if, after the warm-up, it was above
    `factor` times its lowest running median (of `window` steps) at `patience` steps in a row: fewer are noise, and a slow
    increase is measured from where it began. Values above the ceiling do not enter the median.
    """

    def __init__(self, warmup_steps: int = 0, factor: float = 20.0, window: int = 200, patience: int = 10) -> None:
        self.warmup_steps, self.factor, self.window, self.patience = warmup_steps, factor, window, patience
        self._histories: dict[str, LossHistory] = {}
        self._norms: deque[float] = deque(maxlen=RECENT_NORMS)

    def check(self, step: int, losses: dict[str, float], gradient_norm: float | None = None) -> Diagnosis | None:
        """Take in the losses of a step (counted from 0) by name; None if all is well.

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
        """Whether a loss is above its ceiling, which may or may not be noise: no time to write a checkpoint."""
        return any(history.suspicious for history in self._histories.values())

    def state_dict(self) -> dict[str, Any]:
        """All that later answers depend on, as plain lists and numbers."""
        courses = {name: asdict(history) | {"recent": list(history.recent)} for name, history in self._histories.items()}
        return {"courses": courses, "norms": list(self._norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._histories = {
            name: LossHistory(**kept | {"recent": deque(kept["recent"], self.window)})
            for name, kept in state["courses"].items()
        }
        self._norms = deque(state["norms"], RECENT_NORMS)

    def _exploded(self, step: int, name: str, loss: float) -> bool:
        history = self._histories.setdefault(name, LossHistory(deque(maxlen=self.window)))
        if step < self.warmup_steps or loss <= history.ceiling(self.factor):
            history.recent.append(loss)
            history.suspicious = 0
            return False
        history.suspicious += 1
        return history.suspicious >= self.patience

    def _not_finite(self, step: int, what: str, norm: float | None) -> Diagnosis:
        norms = list(self._norms)
        if not self._histories:
            hint = "nothing was learned yet, so it is in the weights or the vectors it started from: run isogloss doctor"
        elif len(norms) < 2 or norms[-1] > STEEP * median(norms[:-1]):  # unknown: the learning rate is the likelier cause
            hint = self._lower_rate(step)
        else:
            hint = (
                "gradients were calm before, so one batch or the number format is to blame rather than the rate: "
                "look for broken text, or train in float32; if it comes back, lower training.learning_rate"
            )
        return Diagnosis(f"{what} at step {step + 1}{self._circumstances(step, norm)}", hint)

    def _explosion(self, step: int, name: str, loss: float, norm: float | None) -> Diagnosis:
        history = self._histories[name]
        sentence = (
            f"{name} exploded: {loss:.3g} at step {step + 1}, after a running median of {history.low or 0:.3g} at its lowest,"
            f" for {history.suspicious} checks in a row{self._circumstances(step, norm)}"
        )
        return Diagnosis(sentence, self._lower_rate(step))

    def _circumstances(self, step: int, norm: float | None) -> str:
        norms = [*self._norms] if norm is None else [*self._norms, norm][-RECENT_NORMS:]
        shown = listed([f"{value:.3g}" for value in norms])
        before = f"; the gradient's norm was {shown} over the last checks" if norms else ""
        return before + ("; the learning rate was still rising" if step < self.warmup_steps else "")

    def _lower_rate(self, step: int) -> str:
        if step < self.warmup_steps:
            return "lower training.learning_rate, or let it rise over more steps: raise training.warmup"
        return "lower training.learning_rate, or training.clip_norm"


def setback(
    before: Mapping[str, float | None], after: Mapping[str, float | None], count: int, where: str, near_teacher: bool
) -> Diagnosis | None:
    """Which scores clearly fell during training; they are named as in `SCORES_IN_WORDS`.

    A mean cosine must fall by `CLEAR_COSINE`, a share p of right answers among `count` by `CLEAR_SHARE` and by two standard
    errors of a difference, 2 · √(2 p (1 − p) / count).
    """
    lost = []
    for name, words in SCORES_IN_WORDS.items():
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            continue
        noise = STANDARD_ERRORS * math.sqrt(max(2 * was * (1 - was), 0.0) / max(count, 1))
        if was - now > (CLEAR_COSINE if name == "cosine" else max(CLEAR_SHARE, noise)):
            form = "{:.2f} (it was {:.2f})" if name == "cosine" else "{:.1%} (it was {:.1%})"
            lost.append(f"{words} {form.format(now, was)}")
    sentence = f"training made the student worse on the {where} pairs: {listed(lost)}"
    return Diagnosis(sentence, better_next(near_teacher)) if lost else None


def no_gain(near_teacher: bool) -> Diagnosis:
    """For a training none of whose steps was better than the start."""
    sentence = "no step of the training did better on the dev pairs than the student before it, which is kept as it was"
    return Diagnosis(sentence, better_next(near_teacher))


def better_next(near_teacher: bool) -> str:
    """What to do about a training that lost something; `near_teacher` is false if a loss could keep it near the teacher."""
    if near_teacher:
        return "lower training.learning_rate, or train for more steps: raise training.epochs"
    return "no loss keeps it near the teacher: add losses.mse, or lower training.learning_rate"

"""Which weights of a training are kept: of all that are about the best at retrieval, those nearest the teacher.

Dev pairs are few, and a good student finds nearly all of them. A step that finds one sentence more was lucky, not better; the
distance to the teacher, a mean over all pairs, is more precise. So this is the one-standard-error rule (Breiman et al. 1984):
of the measurements that are at most one standard error below the one that found most, the nearest to the teacher is kept.
Differences are paired: both answer the same queries, and all queries of a source sentence, in any language, count as one
observation. With u_s the difference that the queries of source s make to the mean over languages,

    z = Σ_s u_s / √(Σ_s u_s²)          is the difference in standard errors

which for equal weights is the root of McNemar's χ². `benchmarks/checkpoint_choice.py` compares this rule with others.

`choose` is the rule for a list of measurements. `Selection` sees one after another; only the weights of one are kept.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

NOISE = 1.0  # standard errors that one measurement may be below another and still be about as good
STANDARD_ERRORS = 2.0  # beyond which a difference is reported as clear
TOLERANCE = 1e-9  # rounding
NOTHING_COUNTED: Doubles = np.zeros(0)


@dataclass(frozen=True, slots=True)
class SelectionScore:
    """What weights are compared by: what was found, one number for each source sentence, and `value`, higher is better.

    The numbers of `found` add up to the share that was found; it is empty where `value` alone decides.
    """

    found: Doubles
    value: float


def standard_errors(differences: Doubles) -> float:
    """How many standard errors the sum of independent differences is away from 0; 0 where all of them are 0."""
    spread = math.sqrt(float(np.square(differences).sum()))
    return float(differences.sum()) / spread if spread else 0.0


def is_behind(score: SelectionScore, reference: SelectionScore) -> bool:
    """Whether less was found than with other weights, by more than one standard error."""
    return standard_errors(reference.found - score.found) > NOISE + TOLERANCE


def choose(scores: Iterable[SelectionScore]) -> int:
    """The place of the measurement whose weights are left after all of them."""
    selection, chosen = Selection(), 0
    for place, score in enumerate(scores):
        preferred = selection.prefers(score)
        selection.take(score, preferred)
        chosen = place if preferred else chosen
    return chosen


class Selection:
    """The measurement whose weights are kept, and the number of measurements since.

    No measurement that is behind the one that found most is kept; of the others, the one of the highest value. The first of
    equals stays: steps that change nothing are no gain.
    """

    def __init__(self, patience: int = 0) -> None:
        self.patience, self.waited = patience, 0
        self.kept: SelectionScore | None = None
        # The one that found most. All others are compared with it, so that small losses do not add up.
        self._most: SelectionScore | None = None

    def prefers(self, score: SelectionScore) -> bool:
        """Whether these weights are to be kept instead of those that are."""
        if self.kept is None:
            return True
        if not math.isfinite(score.value):
            return False
        most = self._most_with(score)
        if is_behind(score, most):
            return False
        return is_behind(self.kept, most) or not score.value <= self.kept.value  # a kept value may not be a number

    def take(self, score: SelectionScore, preferred: bool) -> None:
        """Record a measurement and whether it was preferred."""
        if math.isfinite(score.value):
            self._most = self._most_with(score)
        if preferred:
            self.kept, self.waited = score, 0
        else:
            self.waited += 1

    @property
    def should_stop(self) -> bool:
        """Whether `patience` measurements in a row were not preferred; never if `patience` is 0."""
        return 0 < self.patience <= self.waited

    def _most_with(self, score: SelectionScore) -> SelectionScore:
        return score if self._most is None or score.found.sum() > self._most.found.sum() else self._most

    def state_dict(self) -> dict[str, Any]:
        """Everything that later decisions depend on, as tensors and numbers."""
        return {"waited": self.waited, "kept": _plain(self.kept), "most": _plain(self._most)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.waited, self.kept, self._most = int(state["waited"]), _from_plain(state["kept"]), _from_plain(state["most"])


def _plain(score: SelectionScore | None) -> dict[str, Any] | None:
    return None if score is None else {"found": torch.from_numpy(score.found.copy()), "value": score.value}


def _from_plain(plain: dict[str, Any] | None) -> SelectionScore | None:
    return None if plain is None else SelectionScore(plain["found"].numpy().astype(np.float64), float(plain["value"]))

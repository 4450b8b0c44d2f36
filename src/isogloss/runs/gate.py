"""The gate refuses a student if an old language lost too much when new ones were added.

    loss_l = 100 · (before_l − after_l)          percentage points, for each old language l, by one score of the reports

One language over the limit is enough. Both reports are about the same sentences; with few of them, each weighs much (one of 100
is a point).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from isogloss.config import AddSettings
from isogloss.types import Report

NO_LIMIT = 100.0  # percentage points
TOLERANCE = 1e-9  # points: a loss of exactly the limit passes, however it was rounded
IN_WORDS = {
    "teacher_index": "when the teacher's index is searched",
    "to_source": "when sources are searched by their translations",
    "from_source": "when translations are searched by their sources",
}


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Scores of the old languages before and after, as shares of 1, and the maximum loss in points (None: no limit)."""

    measure: str
    most: float | None
    before: dict[str, float]
    after: dict[str, float]

    @property
    def losses(self) -> dict[str, float]:
        """Percentage points that each language lost; negative if it gained."""
        return {language: 100 * (share - self.after[language]) for language, share in self.before.items()}

    @property
    def over(self) -> list[str]:
        """Languages that lost more than the limit, the largest loss first."""
        worst_first = sorted(self.losses.items(), key=lambda item: (-item[1], item[0]))
        return [language for language, loss in worst_first if self.most is not None and loss > self.most + TOLERANCE]

    def refusal(self) -> str:
        """The largest loss and the limit in a sentence, for a verdict that refuses."""
        worst, *others = self.over
        loss = f"{worst} lost {self.losses[worst]:.1f} points {IN_WORDS[self.measure]}"
        loss += f" (from {100 * self.before[worst]:.1f} to {100 * self.after[worst]:.1f} %)"
        return loss + (f", and {', '.join(others)} lost" if others else ",") + f" more than the {self.most:g} allowed"

    def as_dict(self) -> dict[str, Any]:
        """For results.json."""
        losses = {language: round(points, 2) for language, points in self.losses.items()}
        return {"measure": self.measure, "most": self.most, "lost": losses, "refused": bool(self.over)}


def judge(before: Report, after: Report, languages: Iterable[str], settings: AddSettings) -> GateVerdict:
    """Compare two reports by `gate_on`, or by `to_source` if the student cannot be compared with the teacher."""
    scores = [{score.language: score for score in report.scores} for report in (before, after)]
    known = [language for language in languages if language in scores[0]]
    measure: str = settings.gate_on
    if any(getattr(one[language], measure) is None for one in scores for language in known):
        measure = "to_source"
    had, has = ({language: float(getattr(one[language], measure)) for language in known} for one in scores)
    return GateVerdict(measure, settings.gate if settings.gate < NO_LIMIT else None, had, has)

"""The gate: did the old languages keep their scores when new ones were added? Two reports in, a verdict out.

    loss_l = 100 · (before_l − after_l)          percentage points, for each old language l, by one score of the reports

A loss above the limit refuses the student, whatever the others gained. Both reports answer the same questions, so a loss
is one on the very same sentences; of few sentences each weighs much (with 100 of them, a point).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from isogloss.types import Report

TOLERANCE = 1e-9  # points: a loss of the limit itself passes, however it was rounded
IN_WORDS = {
    "teacher_index": "when the teacher's index is searched",
    "to_source": "when sources are searched by their translations",
    "from_source": "when translations are searched by their sources",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What each old language had and has, as shares, and how many points it may lose (None: any number)."""

    measure: str
    most: float | None
    before: dict[str, float]
    after: dict[str, float]

    @property
    def losses(self) -> dict[str, float]:
        """Percentage points that each language lost; below 0 it gained."""
        return {language: 100 * (share - self.after[language]) for language, share in self.before.items()}

    @property
    def over(self) -> list[str]:
        """Languages that lost more than they may, the worst first."""
        if self.most is None:
            return []
        losses = self.losses
        return sorted((one for one in losses if losses[one] > self.most + TOLERANCE), key=lambda one: (-losses[one], one))

    def refusal(self) -> str:
        """The sentence that names the worst loss. Only for a verdict that refuses."""
        worst, *others = self.over
        loss = f"{worst} lost {self.losses[worst]:.1f} points {IN_WORDS[self.measure]}"
        loss += f" (from {100 * self.before[worst]:.1f} to {100 * self.after[worst]:.1f} %)"
        return loss + (f", and {', '.join(others)} lost" if others else ",") + f" more than the {self.most:g} allowed"

    def as_dict(self) -> dict[str, Any]:
        """As it is written to results.json."""
        losses = {language: round(points, 2) for language, points in self.losses.items()}
        return {"measure": self.measure, "most": self.most, "lost": losses, "refused": bool(self.over)}


def judge(before: Report, after: Report, languages: Iterable[str], most: float | None, measure: str) -> Verdict:
    """Compare two reports on some languages. Where a student cannot be compared with the teacher, sources are searched."""
    scores = [{score.language: score for score in report.scores} for report in (before, after)]
    known = [language for language in languages if language in scores[0]]
    if any(getattr(one[language], measure) is None for one in scores for language in known):
        measure = "to_source"
    had, has = ({language: float(getattr(one[language], measure)) for language in known} for one in scores)
    return Verdict(measure, most, had, has)

"""The account of a preparation: what came in, what each rule took out, what stayed, by corpus and language."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isogloss.corpora.selecting import KEPT, Scored


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the waterfall: a corpus in a language."""

    corpus: str
    language: str
    rows_in: int
    dropped: dict[str, int]
    train: int
    test: int

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "corpus": self.corpus,
            "language": self.language,
            "rows_in": self.rows_in,
            "dropped": self.dropped,
            "train": self.train,
            "test": self.test,
        }


def count(part: Scored, language: str, reasons: Sequence[str]) -> Line:
    """The line of one part."""
    counted = np.bincount(part.reasons, minlength=len(reasons))
    dropped = {reasons[number]: int(counted[number]) for number in range(1, len(reasons)) if counted[number]}
    kept = part.reasons == KEPT
    test = int((kept & part.test).sum())
    return Line(part.corpus, language, part.rows, dropped, int(kept.sum()) - test, test)


def joined(lines: Sequence[Line]) -> list[Line]:
    """One line for each corpus and language, in order of their names."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.corpus, line.language), []).append(line)
    return [_sum(corpus, language, own) for (corpus, language), own in sorted(groups.items())]


def _sum(corpus: str, language: str, lines: Sequence[Line]) -> Line:
    dropped: dict[str, int] = {}
    for line in lines:
        for reason, number in line.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + number
    return Line(
        corpus,
        language,
        sum(line.rows_in for line in lines),
        dropped,
        sum(line.train for line in lines),
        sum(line.test for line in lines),
    )


def total(lines: Sequence[Line]) -> Line:
    """All lines as one."""
    return _sum("", "", lines)

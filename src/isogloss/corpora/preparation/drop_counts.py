"""How many pairs came in, were dropped by each rule, and were kept, by corpus and language."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from isogloss.corpora.preparation.pair_selection import KEPT, ScoredPart


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the waterfall: a corpus in a language, or a sum over several ("" where they differ)."""

    corpus: str
    language: str
    rows_in: int
    dropped: dict[str, int]  # by rule
    train: int
    test: int

    @property
    def pairs(self) -> int:
        """The pairs that were kept, of both splits."""
        return self.train + self.test

    @property
    def worst(self) -> str:
        """The rule that dropped most, with the count: "wrong language (1,204)"; empty if nothing was dropped."""
        rule = max(self.dropped, key=lambda name: self.dropped[name], default="")
        return f"{rule} ({self.dropped[rule]:,})" if rule else ""


def count(part: ScoredPart, reasons: Sequence[str]) -> Line:
    """The line of one part."""
    counted = np.bincount(part.reasons, minlength=len(reasons))
    dropped = {reasons[number]: int(counted[number]) for number in range(1, len(reasons)) if counted[number]}
    test = int(((part.reasons == KEPT) & part.test).sum())
    return Line(part.corpus, part.language, part.rows, dropped, int(counted[KEPT]) - test, test)


def grouped(lines: Iterable[Line], *names: str) -> list[Line]:
    """Sums by the named fields ("corpus", "language", or both), in order."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(getattr(line, name) for name in names), []).append(line)
    return [total(own, **dict(zip(names, key, strict=True))) for key, own in sorted(groups.items())]


def total(lines: Sequence[Line], corpus: str = "", language: str = "") -> Line:
    """All lines as one."""
    dropped = sum((Counter(line.dropped) for line in lines), Counter[str]())
    rows_in, train, test = (sum(getattr(line, name) for line in lines) for name in ("rows_in", "train", "test"))
    return Line(corpus, language, rows_in, dict(dropped), train, test)

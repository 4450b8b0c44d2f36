"""Similarity while a student is trained: Spearman's correlation on a dev set, which the best weights are chosen by.

`sts` measures finished models on the papers' sets, with intervals; `training.dev` does for translations what this does
for rated pairs.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.evaluation.metrics import cosines, spearman
from isogloss.models.student import Student
from isogloss.training.selection import NOTHING_COUNTED, Merit
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.types import FloatArray

SPEARMAN = "dev_spearman"


@dataclass(frozen=True, slots=True)
class STSScore:
    """Spearman's correlation of cosine and gold."""

    spearman: float

    def merit(self, select: str) -> Merit:
        """There is only one score to select by."""
        return Merit(NOTHING_COUNTED, self.spearman)

    def values(self) -> dict[str, float]:
        """For the metrics."""
        return {SPEARMAN: self.spearman}

    def note(self) -> str:
        """For the screen, × 100 as papers write it."""
        return f"dev Spearman {100 * self.spearman:.2f}"


class STSDev:
    """Rated pairs that a student is measured on as it stands."""

    def __init__(self, student: Student, pairs: SentencePairs, scores: FloatArray) -> None:
        self.student, self.pairs, self.scores = student, pairs, scores

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def score(self) -> STSScore:
        """Embed every sentence once, and correlate."""
        rows = np.arange(len(self.pairs.tokens))
        vectors = self.student.vectors_of(self.pairs.tokens, rows)
        return STSScore(spearman(cosines(vectors[self.pairs.left], vectors[self.pairs.right]), self.scores))

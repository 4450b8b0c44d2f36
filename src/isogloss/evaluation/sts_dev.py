"""Spearman's correlation on a dev set of rated pairs during training, to choose the best weights by.

`training.dev_set` does the same for translations; `tasks.sts` measures finished models.
"""

from dataclasses import dataclass

import numpy as np

from isogloss.evaluation.metrics import cosines, spearman
from isogloss.models.student import Student
from isogloss.training.selection import NOTHING_COUNTED, SelectionScore
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.types import FloatArray

SPEARMAN = "dev_spearman"


@dataclass(frozen=True, slots=True)
class STSScore:
    """Spearman's correlation of cosine and gold."""

    spearman: float

    def selection_score(self, select: str) -> SelectionScore:
        """The only score to select by."""
        return SelectionScore(NOTHING_COUNTED, self.spearman)

    def values(self) -> dict[str, float]:
        """For the metrics."""
        return {SPEARMAN: self.spearman}

    def note(self) -> str:
        """For the screen, × 100."""
        return f"dev Spearman {100 * self.spearman:.2f}"


class STSDev:
    """Rated pairs that a student is measured on during training."""

    def __init__(self, student: Student, pairs: SentencePairs, scores: FloatArray) -> None:
        self.student, self.pairs, self.scores = student, pairs, scores

    def __len__(self) -> int:
        return len(self.pairs)

    def score(self) -> STSScore:
        """Embed every sentence once, and compute the correlation."""
        rows = np.arange(len(self.pairs.tokens))
        vectors = self.student.vectors_of(self.pairs.tokens, rows)
        return STSScore(spearman(cosines(vectors[self.pairs.left], vectors[self.pairs.right]), self.scores))

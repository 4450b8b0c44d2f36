"""Measure copies of a model beside the original, on the same held-out pairs.

- Cosine: mean over all sentences of the cosine between the copy's embedding and the original's.
- Accuracy: mean over languages of accuracy at 1. Queries in each language search the teacher's index, if the teacher is known
  and its embeddings have the same size; else the source sentences as the copy itself embeds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.evaluation.alignment import LanguageResult
from isogloss.evaluation.metrics import cosines
from isogloss.exporting.export import Artifact
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import Encoder
from isogloss.types import FloatArray

TOLERANCE = 1e-9  # a loss of exactly the limit passes, however it was rounded
IN_TEACHER_INDEX, BY_TRANSLATION = "teacher_index", "to_source"


@dataclass(eq=False)
class Comparison:
    """The original's embeddings and scores, computed once, and those of any number of copies.

    comparison = Comparison(source)
    artifact = comparison.measure("int8", path, megabytes, encoder)
    reason = comparison.refusal(artifact)
    """

    source: ExportSource

    @property
    def texts(self) -> list[str]:
        """The sentences that every copy embeds."""
        return self.source.evaluator.texts

    @cached_property
    def vectors(self) -> FloatArray:
        """The original's embeddings of `texts`."""
        return self.source.student.encode(self.texts, self.source.on_progress, "embedding, original")

    @cached_property
    def original(self) -> dict[str, float]:
        """The original's accuracy in each language."""
        return accuracies(self._scores_of_original, self.measured_by)

    @cached_property
    def measured_by(self) -> str:
        """The score that counts: in the teacher's index if it can be searched."""
        known = all(result.scores.teacher_index is not None for result in self._scores_of_original)
        return IN_TEACHER_INDEX if known else BY_TRANSLATION

    @cached_property
    def _scores_of_original(self) -> tuple[LanguageResult, ...]:
        return self.source.evaluator.score(self.vectors)

    def measure(self, name: str, path: Path, megabytes: float, encoder: Encoder) -> Artifact:
        """Embed the sentences with a copy, and compare."""
        return self.compare(name, path, megabytes, encoder.encode(self.texts, self.source.on_progress, f"embedding, {name}"))

    def compare(self, name: str, path: Path, megabytes: float, vectors: FloatArray) -> Artifact:
        """Compare embeddings of `texts` with the original's. Without the same dimension there is no cosine (0)."""
        same_size = vectors.shape[1] == self.vectors.shape[1]
        alike = cosines(vectors, self.vectors) if same_size else np.zeros(len(vectors))
        found = accuracies(self.source.evaluator.score(vectors), self.measured_by)
        own, before = (float(np.mean(list(one.values()))) for one in (found, self.original))
        details: dict[str, Any] = {
            "measured_by": self.measured_by,
            "lowest_cosine": round(float(alike.min(initial=1.0)), 5),
            "accuracy": {language: round(value, 4) for language, value in found.items()},
            "original": {language: round(value, 4) for language, value in self.original.items()},
        }
        return Artifact(name, path, megabytes, float(alike.mean()), own, 100 * (before - own), details)

    def refusal(self, artifact: Artifact) -> str:
        """Why a copy is too far from the original; empty if it is not."""
        settings = self.source.settings
        if not np.isfinite(artifact.cosine) or artifact.cosine < settings.min_cosine - TOLERANCE:
            return f"mean cosine {artifact.cosine:.3f} to the original, less than min_cosine = {settings.min_cosine:g}"
        if artifact.lost > settings.max_loss + TOLERANCE:
            return f"{artifact.lost:.1f} points of accuracy lost, more than max_loss = {settings.max_loss:g}"
        return ""


def accuracies(results: Sequence[LanguageResult], by: str) -> dict[str, float]:
    """One score of each language; 0 if a copy's embeddings do not fit the teacher's index."""
    return {result.scores.language: float(getattr(result.scores, by) or 0.0) for result in results}

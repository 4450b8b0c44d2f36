"""Rules about the quality of a pair as a whole: the corpus' own score, and the similarity by a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.errors import RecipeError
from isogloss.types import FloatArray

NEIGHBORS = 4
STRIPE = 1024  # rows of the similarity matrix that are in memory together


@dataclass(frozen=True, slots=True)
class GivenScore(Rule):
    """Drop pairs that their own corpus scores low: WikiMatrix' margin of 1.05, as in the paper."""

    name, order = "low score in its corpus", 60
    compares_sides = True

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> "GivenScore | None":
        """Off for corpora that `min_scores` does not name."""
        minimum = minimum_for(corpus, settings.min_scores)
        return None if minimum is None else cls(minimum)

    def score(self, pairs: PairBatch) -> FloatArray:
        """The given score."""
        return pairs.given


def minimum_for(corpus: str, min_scores: tuple[str, ...]) -> float | None:
    """The minimum of the first entry NAME=NUMBER whose name fits the corpus; None if there is none."""
    for entry in min_scores:
        name, _, value = entry.partition("=")
        try:
            minimum = float(value)
        except ValueError as error:
            hint = 'for example "WikiMatrix=1.05"'
            raise RecipeError(f"cleaning.min_scores: {entry!r} is not NAME=NUMBER", hint=hint) from error
        if fnmatchcase(corpus.lower(), name.strip().lower()):
            return minimum
    return None


@dataclass(frozen=True, slots=True)
class SimilarityModel:
    """The model behind `cleaning.similarity_model`: how it embeds texts, and a hash of its content."""

    encode: Callable[[list[str]], FloatArray]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Similarity(Rule):
    """Drop pairs whose two sides have dissimilar embeddings.

    `cosine` is the plain similarity. `margin` divides it by the similarity to the nearest other sentences of the block
    (Artetxe & Schwenk 2019), which is fairer to languages that the model knows less well.
    """

    name, order = "low similarity", 120
    compares_sides = for_sentences = needs_model = True
    auto = "valley"

    measure: str = "cosine"
    model: SimilarityModel | None = field(default=None, compare=False)

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> "Similarity | None":
        """Off without a model."""
        return cls(settings.min_similarity, settings.similarity) if settings.similarity_model else None

    def score(self, pairs: PairBatch) -> FloatArray:
        """Cosine or margin of each pair; NaN without a model."""
        if self.model is None or not len(pairs):
            return np.full(len(pairs), np.nan, dtype=np.float32)
        left, right = (_unit(self.model.encode(side.texts.to_pylist())) for side in (pairs.source, pairs.target))
        score = np.einsum("ij,ij->i", left, right)
        if self.measure == "margin":
            score = score / np.maximum((_mean_nearest(left, right) + _mean_nearest(right, left)) / 2, 1e-6)
        return np.asarray(score, dtype=np.float32)


def _mean_nearest(left: FloatArray, right: FloatArray) -> FloatArray:
    """The mean similarity of each row to its nearest rows of `right`."""
    k = min(NEIGHBORS, len(right))
    means = np.empty(len(left), dtype=np.float32)
    for start in range(0, len(left), STRIPE):
        similarity = left[start : start + STRIPE] @ right.T
        means[start : start + STRIPE] = np.partition(similarity, -k, axis=1)[:, -k:].mean(1)
    return means


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), dtype=np.float32)

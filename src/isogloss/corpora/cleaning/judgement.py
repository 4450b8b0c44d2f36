"""Rules that rest on somebody's judgement of the pair: the corpus' own score, or a model's."""

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from isogloss.corpora.cleaning.rule import PairBatch
from isogloss.errors import RecipeError
from isogloss.types import BoolArray, FloatArray

EncodeTexts = Callable[[list[str]], FloatArray]
NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class GivenScore:
    """Drop pairs that their own corpus scores low: WikiMatrix' margin of 1.05, as in the paper."""

    name: ClassVar[str] = "low score in its corpus"
    threshold: ClassVar[str] = "minimum"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = False

    minimum: float | None  # None where nothing is demanded of the corpus

    def score(self, pairs: PairBatch) -> FloatArray:
        """The given score; NaN where there is none."""
        return pairs.given

    def accept(self, score: FloatArray) -> BoolArray:
        """Not below the minimum; a pair without a score is not judged."""
        if self.minimum is None:
            return np.ones(len(score), dtype=np.bool_)
        return ~(score < np.float32(self.minimum))


def minimum_for(corpus: str, minimum: tuple[str, ...]) -> float | None:
    """What a corpus' scores must reach, by the first entry that fits its name."""
    for entry in minimum:
        name, equals, value = entry.partition("=")
        try:
            demand = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise RecipeError(f"cleaning.min_scores: {entry!r} is not NAME=NUMBER", hint='for example "WikiMatrix=1.05"')
        if fnmatch.fnmatchcase(corpus.lower(), name.strip().lower()):
            return demand
    return None


@dataclass(frozen=True, slots=True)
class Similarity:
    """Drop pairs that a model you name puts far apart.

    `cosine` is the plain similarity; `margin` divides it by the similarity to the nearest other sentences of the block
    (Artetxe & Schwenk 2019), which is fairer to languages the model knows less well.
    """

    name: ClassVar[str] = "low similarity"
    threshold: ClassVar[str] = "minimum"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    minimum: float
    model: str
    measure: str = "cosine"
    encode: EncodeTexts | None = field(default=None, compare=False)

    def score(self, pairs: PairBatch) -> FloatArray:
        """Cosine or margin of each pair."""
        if self.encode is None or not len(pairs):
            return np.ones(len(pairs), dtype=np.float32)
        one, other = (_unit(self.encode(side.texts.to_pylist())) for side in (pairs.source, pairs.target))
        cosine = np.einsum("ij,ij->i", one, other)
        if self.measure == "cosine":
            return np.asarray(cosine, dtype=np.float32)
        between = one @ other.T
        k = min(NEIGHBOURS, len(pairs))
        forward = np.partition(between, -k, axis=1)[:, -k:].mean(1)
        backward = np.partition(between, -k, axis=0)[-k:].mean(0)
        return np.asarray(cosine / np.maximum((forward + backward) / 2, 1e-6), dtype=np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Near enough."""
        return score >= self.minimum


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), dtype=np.float32)

"""Rules that rest on somebody's judgement of the pair: the corpus' own score, or a model's."""

import fnmatch
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.errors import RecipeError
from isogloss.types import BoolArray, FloatArray

NOTHING = -math.inf  # is demanded
NEIGHBOURS = 4
STRIPE = 1024  # rows of the matrix of similarities that are held at a time


@dataclass(frozen=True, slots=True)
class SimilarityModel:
    """A model that says how near two texts are: how it embeds, and a name made from its content."""

    encode: Callable[[list[str]], FloatArray]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class GivenScore(Rule):
    """Drop pairs that their own corpus scores low: WikiMatrix' margin of 1.05, as in the paper."""

    name: ClassVar[str] = "low score in its corpus"
    threshold: ClassVar[str] = "minimum"
    compares_sides: ClassVar[bool] = True

    minimum: float

    def score(self, pairs: PairBatch) -> FloatArray:
        """The given score; NaN where there is none."""
        return pairs.given

    def accept(self, score: FloatArray) -> BoolArray:
        """Not below the minimum; a pair without a score is not judged."""
        return ~(score < np.float32(self.minimum))


def minimum_for(corpus: str, minimum: tuple[str, ...]) -> float:
    """What a corpus' scores must reach, by the first entry that fits its name; `NOTHING` where none does."""
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
    return NOTHING


@dataclass(frozen=True, slots=True)
class Similarity(Rule):
    """Drop pairs that a model you name puts far apart.

    `cosine` is the plain similarity; `margin` divides it by the similarity to the nearest other sentences of the block
    (Artetxe & Schwenk 2019), which is fairer to languages the model knows less well.
    """

    name: ClassVar[str] = "low similarity"
    threshold: ClassVar[str] = "minimum"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    minimum: float
    measure: str = "cosine"
    judge: SimilarityModel | None = field(default=None, compare=False)

    def score(self, pairs: PairBatch) -> FloatArray:
        """Cosine or margin of each pair; NaN where there is nobody to ask."""
        if self.judge is None or not len(pairs):
            return np.full(len(pairs), np.nan, dtype=np.float32)
        one, other = (_unit(self.judge.encode(side.texts.to_pylist())) for side in (pairs.source, pairs.target))
        cosine = np.einsum("ij,ij->i", one, other)
        if self.measure == "margin":
            around = (_neighbourhood(one, other) + _neighbourhood(other, one)) / 2
            cosine = cosine / np.maximum(around, 1e-6)
        return np.asarray(cosine, dtype=np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Near enough."""
        return score >= self.minimum


def _neighbourhood(one: FloatArray, other: FloatArray) -> FloatArray:
    """The mean similarity of each row to the rows of `other` nearest to it, a stripe of the matrix at a time."""
    k = min(NEIGHBOURS, len(other))
    means = np.empty(len(one), dtype=np.float32)
    for start in range(0, len(one), STRIPE):
        between = one[start : start + STRIPE] @ other.T
        means[start : start + STRIPE] = np.partition(between, -k, axis=1)[:, -k:].mean(1)
    return means


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), dtype=np.float32)

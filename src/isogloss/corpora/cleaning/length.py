"""Rules about how much text there is: none, too much, or far more on one side than on the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from isogloss.corpora.cleaning.rule import PairBatch, Rule, worse
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray, FloatArray, IntArray

CountTokens = Callable[[list[str]], IntArray]


@dataclass(frozen=True, slots=True)
class Empty(Rule):
    """Drop pairs of which a side has no letter or digit left: there is nothing to translate."""

    name: ClassVar[str] = "empty side"
    threshold: ClassVar[str] = "min_characters"

    min_characters: int = 1

    def score(self, pairs: PairBatch) -> FloatArray:
        """How many letters and digits the poorer side has."""
        one, other = (np.diff(side.kept_starts).astype(np.float32) for side in (pairs.source, pairs.target))
        return worse(one, other)

    def accept(self, score: FloatArray) -> BoolArray:
        """At least that many on both sides."""
        return score >= self.min_characters


@dataclass(frozen=True, slots=True)
class TooLong(Rule):
    """Drop pairs with a side that is no longer a sentence."""

    name: ClassVar[str] = "too long"
    threshold: ClassVar[str] = "max_characters"

    max_characters: int

    def score(self, pairs: PairBatch) -> FloatArray:
        """Characters on the longer side."""
        return np.maximum(pairs.source.lengths, pairs.target.lengths).astype(np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return score <= self.max_characters


@dataclass(frozen=True, slots=True)
class TooManyTokens(Rule):
    """Drop pairs with a side of more tokens than the student reads (128 in both papers).

    With a tokenizer its own pieces are counted; without one, a token is a word, a punctuation mark, or a character of a
    script that is written without spaces.
    """

    name: ClassVar[str] = "too many tokens"
    threshold: ClassVar[str] = "max_tokens"

    max_tokens: int
    tokenizer: str = field(default="", compare=False)  # a place; the scores are named by what lies there
    count_tokens: CountTokens | None = field(default=None, compare=False)

    def score(self, pairs: PairBatch) -> FloatArray:
        """Tokens of the longer side."""
        return worse(self._count(pairs.source), self._count(pairs.target), higher_is_better=False)

    def _count(self, side: Side) -> FloatArray:
        if self.count_tokens is None:
            return side.token_counts.astype(np.float32)
        return self.count_tokens(side.texts.to_pylist()).astype(np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return score <= self.max_tokens


@dataclass(frozen=True, slots=True)
class LengthRatio(Rule):
    """Drop pairs whose sides differ in length beyond what translation explains: usually misaligned lines.

    Counted in UTF-8 bytes, because Chinese says in one three-byte character what English says in five letters.
    """

    name: ClassVar[str] = "length ratio"
    threshold: ClassVar[str] = "max_ratio"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    max_ratio: float
    min_bytes: int = 12  # "Hi." ↔ "Guten Tag." is fine: ratios mean nothing on very short text

    def score(self, pairs: PairBatch) -> FloatArray:
        """The longer side over the shorter; NaN, which says nothing, where both are short."""
        one, other = pairs.source.byte_lengths, pairs.target.byte_lengths
        longer, shorter = np.maximum(one, other), np.minimum(one, other)
        return np.where(longer < self.min_bytes, np.nan, longer / np.maximum(shorter, 1)).astype(np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return ~(score > self.max_ratio)

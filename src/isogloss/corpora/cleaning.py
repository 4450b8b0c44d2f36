"""Rules that decide which pairs are fit to train on: each gives a score, and a threshold that accepts it or not.

Score and threshold are kept apart so that a threshold can be moved without scoring again. Rules see columns of text and
give one number a pair; they never change text (`normalise` does that, before any rule looks).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isogloss.config import CleaningSettings
from isogloss.types import BoolArray, FloatArray

CONTROL_OR_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff]+")


def normalise(text: str) -> str:
    """Composed characters (NFC), no control characters, single spaces. What a reader sees stays the same."""
    return CONTROL_OR_SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


class Rule(Protocol):
    """What cleaning needs of a rule."""

    @property
    def name(self) -> str:
        """What the waterfall calls it."""
        ...

    @property
    def needs_translation(self) -> bool:
        """Whether it compares the two sides, and so does not apply to source text without a translation."""
        ...

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """One number a pair."""
        ...

    def accept(self, score: FloatArray) -> BoolArray:
        """Which scores are good enough."""
        ...


@dataclass(frozen=True, slots=True)
class Empty:
    """Drop pairs of which a side has no letter or digit left: there is nothing to translate."""

    name: str = "empty side"
    needs_translation: bool = False

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """How many letters and digits the poorer side has (counted up to one)."""
        return np.array(
            [min(any(map(str.isalnum, s)), any(map(str.isalnum, t))) for s, t in zip(sources, targets, strict=True)],
            dtype=np.float32,
        )

    def accept(self, score: FloatArray) -> BoolArray:
        """At least one on both sides."""
        return score >= 1


@dataclass(frozen=True, slots=True)
class TooLong:
    """Drop pairs with a side that is no longer a sentence."""

    max_characters: int
    name: str = "too long"
    needs_translation: bool = False

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """Characters on the longer side."""
        return np.array([max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)], dtype=np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return score <= self.max_characters


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """Drop pairs whose sides differ in length beyond what translation explains: usually misaligned lines.

    Counted in UTF-8 bytes, because Chinese says in one three-byte character what English says in five letters.
    """

    max_ratio: float
    min_bytes: int = 12  # "Hi." ↔ "Guten Tag." is fine: ratios mean nothing on very short text
    name: str = "length ratio"
    needs_translation: bool = True

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """The longer side over the shorter."""
        lengths = np.array([(len(s.encode()), len(t.encode())) for s, t in zip(sources, targets, strict=True)])
        lengths = lengths.reshape(-1, 2)
        longer, shorter = lengths.max(1, initial=0), lengths.min(1, initial=2**31)
        return np.where(longer < self.min_bytes, 1.0, longer / np.maximum(shorter, 1)).astype(np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return score <= self.max_ratio


@dataclass(frozen=True, slots=True)
class Identical:
    """Drop pairs that were copied, not translated."""

    name: str = "identical sides"
    needs_translation: bool = True

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """1 where both sides are the same letters, whatever their case."""
        return np.array([s.casefold() == t.casefold() for s, t in zip(sources, targets, strict=True)], dtype=np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Only what differs."""
        return score < 1


def rules_from(settings: CleaningSettings) -> list[Rule]:
    """The rules a recipe asks for, in the order they are applied."""
    rules: list[Rule] = [Empty(), TooLong(settings.max_characters), LengthRatio(settings.max_length_ratio)]
    if settings.drop_identical:
        rules.append(Identical())
    return rules

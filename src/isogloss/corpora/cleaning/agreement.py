"""Rules about what must be the same, or must not be the same, on both sides: copies, numbers, addresses."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.corpora.text import characters
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray, FloatArray, IntArray

# Repeats are bounded: one long run of letters must not be looked at from every one of its letters to its end.
ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"']{0,2000}[\w/]|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
ADDRESS_MARKS = ("://", "www.", "@")


@dataclass(frozen=True, slots=True)
class Identical(Rule):
    """Drop pairs that were copied, not translated. A name in a dictionary may well be the same in two languages."""

    name: ClassVar[str] = "identical sides"
    threshold: ClassVar[str] = "drop"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    drop: bool = True

    def score(self, pairs: PairBatch) -> FloatArray:
        """1 where both sides are the same letters and digits, whatever their case and punctuation."""
        return np.asarray(pairs.source.normalized_hashes == pairs.target.normalized_hashes, dtype=np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Only what differs."""
        return (score < 1) | (not self.drop)


@dataclass(frozen=True, slots=True)
class Numbers(Rule):
    """Drop pairs whose numbers differ: the surest sign of two sentences that are about different things.

    Digits are counted one by one, zeros aside, so that 1,000.5 agrees with 1.000,50 and 7:05 with 07.05. Where one side
    has no digits and the other one or two, nothing is said: small numbers are often spelt out.
    """

    name: ClassVar[str] = "different numbers"
    threshold: ClassVar[str] = "min_agreement"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    min_agreement: float
    spelt_out: int = 2

    def score(self, pairs: PairBatch) -> FloatArray:
        """Digits the sides share over digits either has; 1 where there are none."""
        one, other = _digit_counts(pairs.source), _digit_counts(pairs.target)
        shared = np.minimum(one, other).sum(1)
        either = np.maximum(one, other).sum(1)
        silent = (np.minimum(one.sum(1), other.sum(1)) == 0) & (either <= self.spelt_out)
        return np.where(silent, 1.0, shared / np.maximum(either, 1)).astype(np.float32)

    def accept(self, score: FloatArray) -> BoolArray:
        """Enough in common."""
        return score >= self.min_agreement


def _digit_counts(side: Side) -> IntArray:
    """How often each of 1 to 9 stands in each sentence."""
    values = characters.digits().take(side.codes)
    at = np.flatnonzero((values > 0) & (values < 10))
    rows = np.searchsorted(side.starts, at, side="right") - 1
    counts = np.bincount(rows * 9 + values[at] - 1, minlength=9 * len(side))
    return counts.reshape(len(side), 9)


@dataclass(frozen=True, slots=True)
class Addresses(Rule):
    """Drop pairs whose web or mail addresses do not match in number."""

    name: ClassVar[str] = "different addresses"
    threshold: ClassVar[str] = "min_agreement"
    compares_sides: ClassVar[bool] = True
    for_sentences: ClassVar[bool] = True

    min_agreement: float

    def score(self, pairs: PairBatch) -> FloatArray:
        """1 where the addresses are the same, ½ where they are as many (a site in another language), less otherwise."""
        score = np.ones(len(pairs), dtype=np.float32)
        suspect = _may_have_address(pairs.source.texts) | _may_have_address(pairs.target.texts)
        rows = np.flatnonzero(suspect)
        sources, targets = (side.texts.take(pa.array(rows)).to_pylist() for side in (pairs.source, pairs.target))
        for row, source, target in zip(rows, sources, targets, strict=True):
            one, other = sorted(ADDRESS.findall(source)), sorted(ADDRESS.findall(target))
            if one != other:
                score[row] = 0.5 * min(len(one), len(other)) / max(len(one), len(other))
        return score

    def accept(self, score: FloatArray) -> BoolArray:
        """Enough in common."""
        return score >= self.min_agreement


def _may_have_address(texts: pa.Array) -> BoolArray:
    found = np.zeros(len(texts), dtype=np.bool_)
    for mark in ADDRESS_MARKS:
        found |= pc.match_substring(texts, mark).to_numpy(zero_copy_only=False)
    return found

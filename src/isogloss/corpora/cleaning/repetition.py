"""The rule about text that says the same again and again: lines of dots, stuck keys, looping machine translation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from isogloss.corpora.cleaning.rule import PairBatch, Rule, worse
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray, FloatArray

MIN_RUN = 6  # "...", "!!!" and "hmmm" are ordinary
MIN_WORDS = 8


@dataclass(frozen=True, slots=True)
class Repetition(Rule):
    """Drop pairs with a side that mostly repeats itself."""

    name: ClassVar[str] = "repetition"
    threshold: ClassVar[str] = "max_share"

    max_share: float

    def score(self, pairs: PairBatch) -> FloatArray:
        """The larger of two shares, on the worse side: characters in long runs, and words that were there before."""
        return worse(_repeated(pairs.source), _repeated(pairs.target), higher_is_better=False)

    def accept(self, score: FloatArray) -> BoolArray:
        """Not more than the limit."""
        return score <= self.max_share


def _repeated(side: Side) -> FloatArray:
    return np.maximum(_in_runs(side), _said_before(side)).astype(np.float32)


def _in_runs(side: Side) -> FloatArray:
    """The share of characters that stand in runs of one and the same character."""
    if not len(side.codes):
        return np.zeros(len(side), dtype=np.float32)
    new = np.ones(len(side.codes), dtype=np.bool_)
    new[1:] = side.codes[1:] != side.codes[:-1]
    new[side.starts[:-1][side.lengths > 0]] = True
    begins = np.flatnonzero(new)
    runs = np.diff(np.append(begins, len(new)))
    long = runs >= MIN_RUN
    rows = np.searchsorted(side.starts, begins[long], side="right") - 1
    inside = np.bincount(rows, weights=runs[long], minlength=len(side))
    return (inside / np.maximum(side.lengths, 1)).astype(np.float32)


def _said_before(side: Side) -> FloatArray:
    """The share of a sentence's words that it had said already; 0 for short sentences."""
    words = side.words
    counts = np.diff(words.starts)
    result = np.zeros(len(side), dtype=np.float32)
    rows = np.flatnonzero(counts >= MIN_WORDS)
    if not len(rows):
        return result
    owner = np.repeat(np.arange(len(counts)), counts)
    long = (counts >= MIN_WORDS)[owner]
    key = owner[long] * np.int64(len(words.vocabulary)) + words.index[long]
    key.sort()
    new = np.append(True, key[1:] != key[:-1])
    distinct = np.bincount(key[new] // len(words.vocabulary), minlength=len(side))
    result[rows] = 1 - distinct[rows] / counts[rows]
    return result

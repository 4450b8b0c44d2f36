"""The rule about text that repeats itself: lines of dots, stuck keys, looping machine translation."""

from dataclasses import dataclass

import numpy as np

from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.text.arrays import begins_run, spans_of
from isogloss.corpora.text.side import Side
from isogloss.types import FloatArray

MIN_RUN = 6  # "...", "!!!" and "hmmm" are ordinary
MIN_WORDS = 8


@dataclass(frozen=True, slots=True)
class Repetition(Rule):
    """Drop pairs with a side that mostly repeats itself."""

    name, order = "repetition", 80
    setting, off = "max_repetition", 1
    higher_is_better = False

    def score_side(self, side: Side) -> FloatArray:
        """The share of characters in long runs, or of repeated words if that is larger."""
        return np.maximum(_share_in_runs(side), _share_of_repeated_words(side))


def _share_in_runs(side: Side) -> FloatArray:
    """The share of characters that stand in runs of the same character."""
    new = begins_run(side.codes)
    new[side.starts[:-1][side.lengths > 0]] = True
    begins = np.flatnonzero(new)
    runs = np.diff(np.append(begins, len(new)))
    long = runs >= MIN_RUN
    inside = np.bincount(spans_of(begins[long], side.starts), weights=runs[long], minlength=len(side))
    return (inside / np.maximum(side.lengths, 1)).astype(np.float32)


def _share_of_repeated_words(side: Side) -> FloatArray:
    """The share of a sentence's words that it has already used; 0 for short sentences."""
    words = side.words
    counts = np.diff(words.starts)
    long = np.repeat(counts >= MIN_WORDS, counts)
    key = np.repeat(np.arange(len(side)), counts)[long] * len(words.vocabulary) + words.index[long]
    key.sort()
    distinct = np.bincount(key[begins_run(key)] // len(words.vocabulary), minlength=len(side))
    return np.where(counts >= MIN_WORDS, 1 - distinct / np.maximum(counts, 1), 0.0).astype(np.float32)

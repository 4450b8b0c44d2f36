"""Rules that compare the two sides: copied text, numbers, addresses."""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.corpora.text import characters
from isogloss.corpora.text.arrays import spans_of
from isogloss.corpora.text.side import Side
from isogloss.types import FloatArray, IntArray

# Repeats are bounded: a long run of letters must not take quadratic time.
ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"']{0,2000}[\w/]|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
ADDRESS_MARK = r"://|www\.|@"  # every address has one


@dataclass(frozen=True, slots=True)
class Identical(Rule):
    """Drop pairs that were copied, not translated; in dictionaries a name may be the same in two languages."""

    name, order = "identical sides", 50
    compares_sides = for_sentences = True
    higher_is_better = False

    threshold: float = 0.5

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> "Identical | None":
        """On or off."""
        return cls() if settings.drop_identical else None

    def score(self, pairs: PairBatch) -> FloatArray:
        """1 where both sides have the same letters and digits, in any case and with any punctuation."""
        return np.asarray(pairs.source.normalized_hashes == pairs.target.normalized_hashes, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Numbers(Rule):
    """Drop pairs whose numbers differ, the most reliable sign of a wrong translation.

    Digits are counted one by one without zeros, so that 1,000.5 agrees with 1.000,50 and 7:05 with 07.05. One or two digits
    against none are accepted, since small numbers are often spelled out.
    """

    name, order = "different numbers", 90
    setting, off = "min_numbers", 0
    compares_sides = for_sentences = True
    auto = "valley"

    spelled_out: int = 2

    def score(self, pairs: PairBatch) -> FloatArray:
        """Digits in common over digits of either side; 1 where there are none."""
        left, right = _digit_counts(pairs.source), _digit_counts(pairs.target)
        shared = np.minimum(left, right).sum(1)
        either = np.maximum(left, right).sum(1)
        silent = (np.minimum(left.sum(1), right.sum(1)) == 0) & (either <= self.spelled_out)
        return np.where(silent, 1.0, shared / np.maximum(either, 1)).astype(np.float32)


def _digit_counts(side: Side) -> IntArray:
    """How often each digit from 1 to 9 occurs in each sentence."""
    values = characters.digits().take(side.codes)
    at = np.flatnonzero((values > 0) & (values < 10))
    counts = np.bincount(spans_of(at, side.starts) * 9 + values[at] - 1, minlength=9 * len(side))
    return counts.reshape(len(side), 9)


@dataclass(frozen=True, slots=True)
class Addresses(Rule):
    """Drop pairs whose web or mail addresses do not match in number."""

    name, order = "different addresses", 100
    setting, off = "min_addresses", 0
    compares_sides = for_sentences = True

    def score(self, pairs: PairBatch) -> FloatArray:
        """1 for equal addresses, ½ for equally many (a site in another language), less otherwise."""
        score = np.ones(len(pairs), dtype=np.float32)
        suspect = pc.or_(*(pc.match_substring_regex(side.texts, ADDRESS_MARK) for side in (pairs.source, pairs.target)))
        rows = np.flatnonzero(suspect)
        sources, targets = (side.texts.take(pa.array(rows)).to_pylist() for side in (pairs.source, pairs.target))
        for row, source, target in zip(rows, sources, targets, strict=True):
            left, right = sorted(ADDRESS.findall(source)), sorted(ADDRESS.findall(target))
            if left != right:
                score[row] = 0.5 * min(len(left), len(right)) / max(len(left), len(right))
        return score

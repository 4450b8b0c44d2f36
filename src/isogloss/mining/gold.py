"""Pairs of ids that are known to be right, in BUCC's format: source id<TAB>target id, a pair a line."""

from dataclasses import dataclass

import numpy as np

from isogloss.corpora.reading.readers import read_lines
from isogloss.errors import DataError
from isogloss.mining.matching import Matches
from isogloss.mining.sentences import Sentences
from isogloss.types import BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """Gold pairs, and what the rows of both sides are called."""

    pairs: set[tuple[str, str]]
    ids: tuple[list[str], list[str]]

    @property
    def wanted(self) -> int:
        """Number of gold pairs, found or not."""
        return len(self.pairs)

    def among(self, matches: Matches) -> BoolArray:
        """Which matches are gold."""
        left, right = self.ids
        pairs = zip(matches.left.tolist(), matches.right.tolist(), strict=True)
        return np.array([(left[one], right[other]) in self.pairs for one, other in pairs], dtype=np.bool_)


def read_gold(name: str, left: Sentences, right: Sentences) -> Gold:
    """Read gold pairs of the sentences of two sides; the copy of a sentence stands for the sentence."""
    pairs: set[tuple[str, str]] = set()
    for number, line in enumerate(read_lines(name), 1):
        if not line.strip():
            continue
        one, tab, other = line.partition("\t")
        if not tab:
            raise DataError(f"{name} line {number}: 1 column, expected 2", hint="gold is source id<TAB>target id")
        other = other.split("\t")[0]
        pairs.add((left.same_as.get(one, one), right.same_as.get(other, other)))
    ids = left.ids.to_pylist(), right.ids.to_pylist()
    known = [set(one) for one in ids]
    if not any(one in known[0] and other in known[1] for one, other in pairs):
        raise DataError(f"{name}: none of its pairs is among the sentences", hint="ids are line numbers, unless --ids is set")
    return Gold(pairs, ids)

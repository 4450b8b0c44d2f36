"""Gold pairs in BUCC's format: source id<TAB>target id, one pair per line."""

from dataclasses import dataclass

import numpy as np

from isogloss.corpora.reading.readers import read_lines
from isogloss.errors import DataError
from isogloss.mining.matching import Matches
from isogloss.mining.sentences import Sentences
from isogloss.types import BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """Gold pairs, and the ids of the rows of both sides."""

    pairs: set[tuple[str, str]]
    ids: tuple[list[str], list[str]]

    def among(self, matches: Matches) -> BoolArray:
        """Which matches are gold."""
        left, right = self.ids
        pairs = zip(matches.left.tolist(), matches.right.tolist(), strict=True)
        return np.array([(left[row], right[column]) in self.pairs for row, column in pairs], dtype=np.bool_)


def read_gold(name: str, left: Sentences, right: Sentences) -> Gold:
    """Read gold pairs; the id of a duplicate stands for the sentence that was kept."""
    pairs: set[tuple[str, str]] = set()
    for number, line in enumerate(read_lines(name), 1):
        if not line.strip():
            continue
        source, tab, target = line.partition("\t")
        if not tab:
            raise DataError(f"{name} line {number}: 1 column, expected 2", hint="gold is source id<TAB>target id")
        target = target.split("\t")[0]
        pairs.add((left.same_as.get(source, source), right.same_as.get(target, target)))
    ids = left.ids.to_pylist(), right.ids.to_pylist()
    known = set(ids[0]), set(ids[1])
    if not any(source in known[0] and target in known[1] for source, target in pairs):
        raise DataError(f"{name}: none of its pairs is in the input files", hint="ids are line numbers, unless --ids is set")
    return Gold(pairs, ids)

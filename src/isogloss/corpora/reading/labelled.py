"""Labelled sentence pairs: natural language inference (NLI) and semantic textual similarity (STS).

    premise      hypothesis    entailment | neutral | contradiction, or 0 | 1 | 2
    sentence 1   sentence 2    a score from 0 to 5

Files are TSV, CSV, JSONL or Parquet, compressed or not. Columns are found by the names that published sets use. Without a
header, the label or score is in the last of three columns, in the first, or in the fifth of STSb's seven. Rows without a label
("-", -1, an empty score) are skipped and counted; any other malformed row raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isogloss.corpora.reading.tables import Columns, NumberedRow, read_columns
from isogloss.errors import DataError
from isogloss.storage import ContentHash
from isogloss.types import FloatArray, IntArray

LABELS = ("entailment", "neutral", "contradiction")
_OTHER_WORDS = {"contradictory": "contradiction", "entail": "entailment", "contradict": "contradiction"}
UNLABELLED = {"-", "", "-1"}
ENOUGH_SCORES = 50  # scores from 0 to 5 of which one should be above 1

FIRST = ("premise", "sentence1", "sentence_a", "s1", "text1", "sent_1", "first")
SECOND = ("hypothesis", "sentence2", "sentence_b", "s2", "text2", "sent_2", "second")
LABEL = ("gold_label", "label", "entailment_judgment", "entailment_label")
SCORE = ("score", "similarity_score", "relatedness_score", "similarity", "gold", "label", "labels")


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Sentence pairs with labels, and how many rows had none. `gold` has indices of `LABELS` for NLI, scores for STS."""

    first: list[str]
    second: list[str]
    gold: FloatArray
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.first)

    @property
    def labels(self) -> IntArray:
        """The labels as integers."""
        return self.gold.astype(np.int64)

    @property
    def hash(self) -> str:
        """Hash of the content."""
        digest = ContentHash()
        digest.add(*self.first, *self.second, self.gold.tobytes())
        return digest.name()

    def sentences(self) -> list[str]:
        """Every distinct sentence, in order of first appearance."""
        return list(dict.fromkeys(text for pair in zip(self.first, self.second, strict=True) for text in pair))


def read_nli(paths: Sequence[str | Path]) -> Labelled:
    """Premises, hypotheses and labels of all files."""
    return _read(paths, NLI)


def read_sts(paths: Sequence[str | Path]) -> Labelled:
    """Sentence pairs and their scores of all files."""
    pairs = _read(paths, STS)
    if len(pairs) >= ENOUGH_SCORES and pairs.gold.max() <= 1:
        raise DataError(
            f"{', '.join(map(str, paths))}: no score is above 1, but scores are from 0 to 5",
            hint="if they are from 0 to 1, multiply them by 5",
        )
    return pairs


class _Kind(NamedTuple):
    """What labels or scores look like."""

    name: str
    headings: tuple[str, ...]
    parse: Callable[[str], float | None]  # None: no label. Raises ValueError for anything else.
    values: str  # that are valid

    def is_valid(self, cell: str) -> bool:
        """Whether a cell may be a label."""
        try:
            self.parse(cell)
        except (ValueError, OverflowError):
            return False
        return True

    def columns(self, rows: Sequence[NumberedRow]) -> Columns | None:
        """The columns of two sentences and a label: those with labels in at least half of the first rows."""
        for columns in ((5, 6, 4), (0, 1, 2), (1, 2, 0)):
            fitting = sum(len(cells) > max(columns) and self.is_valid(cells[columns[2]]) for _, cells in rows)
            if fitting and fitting >= len(rows) / 2:  # the other rows raise when they are read
                return columns
        return None


def _label(cell: str) -> float | None:
    word = cell.strip().lower()
    if word.removesuffix(".0") in UNLABELLED:
        return None
    word = _OTHER_WORDS.get(word, word)
    if word in LABELS:
        return float(LABELS.index(word))
    number = float(word)
    if number not in range(len(LABELS)):
        raise ValueError(cell)
    return number


def _score(cell: str) -> float | None:
    word = cell.strip()
    if word in UNLABELLED - {"-1"}:
        return None
    number = float(word)
    if not 0 <= number <= 5:  # also for nan
        raise ValueError(cell)
    return number


NLI = _Kind("label", LABEL, _label, f"a label is one of {', '.join(LABELS)}, or 0, 1 or 2")
STS = _Kind("score", SCORE, _score, "a score is a number from 0 to 5")


def _read(paths: Sequence[str | Path], kind: _Kind) -> Labelled:
    paths = [paths] if isinstance(paths, str | Path) else paths
    hint = f"columns are two sentences and a {kind.name}, or are named sentence1, sentence2, {kind.name}"
    first: list[str] = []
    second: list[str] = []
    gold: list[float] = []
    left_out = 0
    for path in map(Path, paths):
        before = len(first) + left_out
        for place, (left, right, cell) in read_columns(path, (FIRST, SECOND, kind.headings), kind.columns, hint, ragged=True):
            try:
                value = kind.parse(cell)
            except (ValueError, OverflowError) as error:
                raise DataError(f"{place}: the {kind.name} is {cell[:40]!r}", hint=kind.values) from error
            if value is None:
                left_out += 1
                continue
            if not left or not right:
                raise DataError(f"{place}: the {'first' if not left else 'second'} sentence is empty", hint="remove the row")
            first.append(left)
            second.append(right)
            gold.append(value)
        if len(first) + left_out == before:
            raise DataError(f"{path}: there are no rows in it", hint="name a file with rows")
    if not first:
        raise DataError(f"{', '.join(map(str, paths))}: no row has a {kind.name}", hint=kind.values)
    return Labelled(first, second, np.array(gold, dtype=np.float32), left_out)

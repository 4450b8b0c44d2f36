"""Labelled sentence pairs: natural language inference (NLI) and semantic textual similarity (STS).

    premise      hypothesis    entailment | neutral | contradiction, or 0 | 1 | 2
    sentence 1   sentence 2    a score from 0 to 5

Files are TSV, CSV, JSONL or Parquet, compressed or not. Columns are found by the names that published sets use. Without a
header, the label or score is in the last of three columns, in the first, or in the fifth of STSb's seven. Rows without a label
("-", -1, an empty score) are skipped and counted; any other malformed row raises.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.corpora.reading.filenames import format_of
from isogloss.corpora.reading.tables import NAMED, NumberedRow, read_table
from isogloss.errors import DataError
from isogloss.storage import ContentHash
from isogloss.types import FloatArray, IntArray

LABELS = ("entailment", "neutral", "contradiction")
_OTHER_WORDS = {"contradictory": "contradiction", "entail": "entailment", "contradict": "contradiction"}
NO_GOLD = {"-", "", "-1"}
LOWEST, HIGHEST = 0.0, 5.0
ROWS_LOOKED_AT = 20  # to find the columns
ENOUGH_TO_TELL = 50  # scores from 0 to 5 of which one should be above 1

FIRST = ("premise", "sentence1", "sentence_a", "s1", "text1", "sent_1", "first")
SECOND = ("hypothesis", "sentence2", "sentence_b", "s2", "text2", "sent_2", "second")
LABEL = ("gold_label", "label", "entailment_judgment", "entailment_label")
SCORE = ("score", "similarity_score", "relatedness_score", "similarity", "gold", "label", "labels")

ParseLabel = Callable[[str], float | None]  # None: no label. Raises ValueError for anything else.
Layout = tuple[int, int, int]  # columns of the first sentence, the second, and the label


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Sentence pairs with labels, and how many rows had none. `gold` has indices of `LABELS` for NLI, scores for STS."""

    first: list[str]
    second: list[str]
    gold: FloatArray
    left_out: int = 0

    def __len__(self) -> int:
        """Number of rows."""
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
    return _read(paths, _label, LABEL, "label", f"a label is one of {', '.join(LABELS)}, or 0, 1 or 2")


def read_sts(paths: Sequence[str | Path]) -> Labelled:
    """Sentence pairs and their scores of all files."""
    pairs = _read(paths, _score, SCORE, "score", "a score is a number from 0 to 5")
    if len(pairs) >= ENOUGH_TO_TELL and pairs.gold.max() <= 1:
        raise DataError(
            f"{', '.join(map(str, paths))}: no score is above 1, but scores are from 0 to 5",
            hint="if they are from 0 to 1, multiply them by 5",
        )
    return pairs


def _label(cell: str) -> float | None:
    word = cell.strip().lower()
    if word.removesuffix(".0") in NO_GOLD:
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
    if word in NO_GOLD - {"-1"}:
        return None
    number = float(word)
    if not LOWEST <= number <= HIGHEST:  # also for nan
        raise ValueError(cell)
    return number


def _read(paths: Sequence[str | Path], parse: ParseLabel, names: Sequence[str], what: str, hint: str) -> Labelled:
    if isinstance(paths, str | Path):
        paths = [paths]
    first: list[str] = []
    second: list[str] = []
    gold: list[float] = []
    left_out = 0
    for path in map(Path, paths):
        before = len(first) + left_out
        for place, left, right, cell in _rows(path, parse, names, what):
            try:
                value = parse(cell)
            except (ValueError, OverflowError) as error:
                raise DataError(f"{place}: the {what} is {cell[:40]!r}", hint=hint) from error
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
        raise DataError(f"{', '.join(map(str, paths))}: no row has a {what}", hint=hint)
    return Labelled(first, second, np.array(gold, dtype=np.float32), left_out)


def _rows(path: Path, parse: ParseLabel, names: Sequence[str], what: str) -> Iterator[tuple[str, str, str, str]]:
    """Every row: its place for messages, its two sentences, and its label."""
    table = read_table(path)
    looked_at = list(islice(table, ROWS_LOOKED_AT))
    if not looked_at:
        return
    layout = _from_header(looked_at[0][1], names)
    if layout is not None:
        del looked_at[0]
    elif format_of(path.name) in NAMED:
        raise DataError(
            f"{path}: its columns are {', '.join(looked_at[0][1])[:200]}", hint=f"name them sentence1, sentence2 and {what}"
        )
    else:
        layout = _from_content(looked_at, parse, path, what)
    for number, cells in chain(looked_at, table):
        if len(cells) <= max(layout):
            found = amount(len(cells), "column")
            raise DataError(
                f"{path} line {number}: {found}, expected {max(layout) + 1} or more", hint="is it separated by tabs?"
            )
        first, second, label = (cells[place].strip() for place in layout)
        yield f"{path} line {number}", first, second, label


def _from_header(cells: Sequence[str], label: Sequence[str]) -> Layout | None:
    """The columns by their names; None if this is not a header."""
    names = [cell.strip().strip('"').lower() for cell in cells]
    found = [next((names.index(one) for one in known if one in names), None) for known in (FIRST, SECOND, label)]
    first, second, gold = found
    return None if first is None or second is None or gold is None else (first, second, gold)


def _from_content(rows: Sequence[NumberedRow], parse: ParseLabel, path: Path, what: str) -> Layout:
    """The layout whose label column has labels in at least half of the first rows."""
    known: list[Layout] = [(5, 6, 4), (0, 1, 2), (1, 2, 0)]
    for layout in known:
        fitting = sum(len(cells) > max(layout) and _may_be(cells[layout[2]], parse) for _, cells in rows)
        if fitting and fitting >= len(rows) / 2:  # the other rows raise when they are read
            return layout
    number, cells = rows[0]
    raise DataError(
        f"{path} line {number}: neither a header nor a {what} where one should be: {chr(9).join(cells)[:80]!r}",
        hint=f"columns are two sentences and a {what}, or have a header such as sentence1, sentence2, {what}",
    )


def _may_be(cell: str, parse: ParseLabel) -> bool:
    try:
        parse(cell)
    except (ValueError, OverflowError):
        return False
    return True

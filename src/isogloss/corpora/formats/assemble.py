"""Turn the columns of a block into pairs: check all cells at once, report bad rows, give one row per translation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.reading.blocks import BLOCK_SCHEMA
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.errors import DataError
from isogloss.types import TEST, TRAIN, BoolArray, IntArray

SPLITS = ("", TRAIN, TEST)
BLANK = DataError("a blank line")
Explain = Callable[[int], DataError | None]


@dataclass(frozen=True, slots=True)
class Cells:
    """The columns of some rows as trimmed text; null where a row lacks the cell."""

    lines: IntArray
    source: pa.Array
    targets: tuple[tuple[pa.Array, str], ...]  # with their languages
    language: pa.Array | None = None
    split: pa.Array | None = None
    score: pa.Array | None = None  # text or numbers
    sparse: bool = False  # a row may lack some translations, but not all


def trimmed(cells: pa.Array) -> pa.Array:
    """Without whitespace at either end, as `str.strip` sees it."""
    return pc.utf8_trim_whitespace(cells)


def marked(rows: Iterable[int], count: int) -> BoolArray:
    """A mask of `count` rows that is true for the given ones."""
    mask = np.zeros(count, dtype=bool)
    mask[list(rows)] = True
    return mask


def assemble(cells: Cells, place: str, faults: Faults, explain: Explain, suspects: BoolArray | None = None) -> pa.Table:
    """The pairs of a block; bad rows go to `faults` in their order.

    `suspects` are rows that the format knows to be bad. `explain` gives the format's error for a bad row, `BLANK` for one to
    be skipped, or None if the cells are to blame. `place` is "FILE line", for messages.
    """
    score, bad_score = _numbers(cells.score)
    languages, bad_language = _codes(cells.language)
    bad = _empty(cells) | bad_score | bad_language | _bad_split(cells.split)
    if suspects is not None:
        bad |= suspects
    for row in np.flatnonzero(bad).tolist():
        error = explain(row) or _cell_error(cells, row, f"{place} {cells.lines[row]}")
        if error is not BLANK:
            faults.add(error)
    return _one_row_per_translation(cells, languages, score, ~bad)


def _missing(column: pa.Array) -> BoolArray:
    empty: BoolArray = pc.fill_null(pc.equal(pc.binary_length(column), 0), True).to_numpy(zero_copy_only=False)
    return empty


def _empty(cells: Cells) -> BoolArray:
    bad = _missing(cells.source)
    missing = [_missing(column) for column, _ in cells.targets]
    if not cells.sparse:
        return np.asarray(np.logical_or.reduce([bad, *missing]))
    null = [column.is_null().to_numpy(zero_copy_only=False) for column, _ in cells.targets]
    blank = [empty & ~absent for empty, absent in zip(missing, null, strict=True)]
    return np.asarray(np.logical_or.reduce([bad, np.logical_and.reduce(null), *blank]))


def _bad_split(split: pa.Array | None) -> BoolArray:
    if split is None:
        return np.zeros(1, dtype=bool)
    known: BoolArray = pc.is_in(pc.fill_null(split, ""), value_set=pa.array(SPLITS)).to_numpy(zero_copy_only=False)
    return ~known


def _codes(language: pa.Array | None) -> tuple[pa.Array | None, BoolArray]:
    """The language column in canonical codes, and where it is not one."""
    if language is None:
        return None, np.zeros(1, dtype=bool)
    coded = language.dictionary_encode()
    short = [canonical(code) if is_shaped_like_a_code(code) else None for code in coded.dictionary.to_pylist()]
    codes = pa.array(short, pa.string()).take(coded.indices)
    return codes, codes.is_null().to_numpy(zero_copy_only=False)


def _numbers(score: pa.Array | None) -> tuple[pa.Array | None, BoolArray]:
    """The score column as numbers (null where empty), and where it is neither."""
    if score is None:
        return None, np.zeros(1, dtype=bool)
    try:
        text = pa.types.is_string(score.type)
        filled = pc.if_else(pc.equal(score, ""), pa.scalar(None, pa.string()), score) if text else score
        numbers = pc.cast(filled, pa.float32())
    except pa.ArrowInvalid:
        numbers = pa.array([_number(value) for value in score.to_pylist()], pa.float32())
    values = pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False)
    return numbers, ~np.isfinite(values)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return float("nan")


def _cell_error(cells: Cells, row: int, place: str) -> DataError:
    language = None if cells.language is None else cells.language[row].as_py() or ""
    targets = [(code if language is None else language, column[row].as_py()) for column, code in cells.targets]
    if cells.sparse:
        there = [(code, text) for code, text in targets if text is not None]
        targets = there or [(", ".join(code for code, _ in targets), "")]
    split = cells.split[row].as_py() or "" if cells.split is not None else ""
    score = cells.score[row].as_py() if cells.score is not None else ""
    return row_error(place, cells.source[row].as_py() or "", targets, split, score)


def row_error(place: str, source: str, targets: list[tuple[str, str | None]], split: str, score: object) -> DataError:
    """What is wrong with a row: the first of its split, language, sides and score that does not fit."""
    if split not in SPLITS:
        return DataError(f"{place}: the split is {split[:40]!r}", hint="it must be train, test, or empty")
    for code, text in targets:
        if not text or not source:
            return empty_side(place, "source" if not source else f"target ({code})")
        if not is_shaped_like_a_code(code.strip()):
            what = f"{code[:40]!r}, not a code" if code.strip() else "empty"
            return DataError(f"{place}: the language is {what}", hint="every line needs its language code, such as de")
    return DataError(f"{place}: the score is {str(score)[:40]!r}, not a number", hint="leave it empty, or write it like 1.05")


def empty_side(place: str, side: str) -> DataError:
    """The error for a side without text."""
    return DataError(f"{place}: the {side} side is empty", hint=f"remove the line; or {SKIPPING}")


def _one_row_per_translation(cells: Cells, languages: pa.Array | None, score: pa.Array | None, good: BoolArray) -> pa.Table:
    """The good rows, with the translations of a line together in the order of their columns."""
    rows = np.flatnonzero(good)
    ways = len(cells.targets)
    per_row = pa.array(np.repeat(rows, ways)) if ways > 1 or len(rows) < len(cells.lines) else None

    def repeated(column: pa.Array) -> pa.Array:
        return column if per_row is None else column.take(per_row)

    count = len(rows) * ways
    if ways == 1:
        target = repeated(cells.targets[0][0])
    else:  # columns lie one after another; row by row is their transposition
        every = pa.concat_arrays([column for column, _ in cells.targets])
        target = every.take(pa.array((rows[:, None] + len(cells.lines) * np.arange(ways)[None, :]).ravel()))
    codes = pa.array([code for _, code in cells.targets], pa.string())
    language = repeated(languages) if languages is not None else codes.take(pa.array(np.tile(np.arange(ways), len(rows))))
    table = pa.Table.from_arrays(
        [
            repeated(cells.source),
            target,
            language,
            repeated(pc.fill_null(cells.split, "")) if cells.split is not None else pa.repeat("", count),
            repeated(score) if score is not None else pa.nulls(count, pa.float32()),
            pa.array(np.repeat(cells.lines[rows], ways)),
        ],
        schema=BLOCK_SCHEMA,
    )
    return table.filter(pc.is_valid(table["target"])) if cells.sparse else table

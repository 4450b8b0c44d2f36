"""From the columns of a block to pairs: check every cell at once, explain the few bad rows, one row for each translation."""

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

_SPLITS = ("", TRAIN, TEST)


@dataclass(frozen=True, slots=True)
class Cells:
    """The columns of some rows, as trimmed text; null where a row lacks the cell."""

    lines: IntArray
    source: pa.Array
    targets: tuple[tuple[pa.Array, str], ...]
    language: pa.Array | None = None
    split: pa.Array | None = None
    score: pa.Array | None = None  # text or numbers
    sparse: bool = False  # a row may lack some of the translations, as long as it has one


Explain = Callable[[int], DataError | None]


def trimmed(cells: pa.Array) -> pa.Array:
    """Without whitespace at either end, as `str.strip` sees it."""
    return pc.utf8_trim_whitespace(cells)


def assemble(cells: Cells, place: str, faults: Faults, explain: Explain, suspects: BoolArray | None = None) -> pa.Table:
    """The pairs of a block; rows that do not fit go to `faults` in their order.

    `suspects` are rows the format already knows to be bad. `explain` says what it has against a bad row: an error, `BLANK`
    for one that is to be passed over, or None if only the cells can tell. `place` is "FILE line", for messages.
    """
    score, no_number = _numbers(cells.score)
    languages, no_language = _codes(cells.language)
    bad = _empty(cells) | no_number | no_language | _unknown_split(cells.split)
    if suspects is not None:
        bad |= suspects
    for row in np.flatnonzero(bad).tolist():
        error = explain(row) or _complaint(cells, row, f"{place} {cells.lines[row]}")
        if error is not BLANK:
            faults.add(error)
    return _melted(cells, languages, score, ~bad)


BLANK = DataError("a blank line")


def marked(rows: Iterable[int], count: int) -> BoolArray:
    """A mask of `count` rows that is true for the given ones."""
    mask = np.zeros(count, dtype=bool)
    mask[list(rows)] = True
    return mask


def _missing(column: pa.Array) -> BoolArray:
    empty: BoolArray = pc.fill_null(pc.equal(pc.binary_length(column), 0), True).to_numpy(zero_copy_only=False)
    return empty


def _empty(cells: Cells) -> BoolArray:
    bad = _missing(cells.source)
    if cells.sparse:
        absent = [column.is_null().to_numpy(zero_copy_only=False) for column, _ in cells.targets]
        blank = [_missing(column) & ~gone for (column, _), gone in zip(cells.targets, absent, strict=True)]
        bad |= np.logical_and.reduce(absent)
        bad |= np.logical_or.reduce(blank)
        return bad
    for column, _ in cells.targets:
        bad |= _missing(column)
    return bad


def _unknown_split(split: pa.Array | None) -> BoolArray:
    if split is None:
        return np.zeros(1, dtype=bool)
    known = pc.is_in(pc.fill_null(split, ""), value_set=pa.array(_SPLITS))
    unknown: BoolArray = ~known.to_numpy(zero_copy_only=False)
    return unknown


def _codes(language: pa.Array | None) -> tuple[pa.Array | None, BoolArray]:
    """The language column in canonical codes, and where it has none."""
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


def _complaint(cells: Cells, row: int, place: str) -> DataError:
    """What is wrong with the cells of one row, in words."""
    split = cells.split[row].as_py() if cells.split is not None else ""
    if split and split not in _SPLITS:
        return DataError(f"{place}: the split is {split[:40]!r}", hint="it must be train, test, or empty")
    language = cells.language[row].as_py() if cells.language is not None else ""
    if cells.language is not None and not (language and is_shaped_like_a_code(language)):
        what = f"{language[:40]!r}, not a code" if language else "empty"
        return DataError(f"{place}: the language is {what}", hint="every line needs its language code, such as de")
    if not cells.source[row].as_py():
        return empty_side(place, "source")
    for column, code in cells.targets:
        text = column[row].as_py()
        if not text and not (cells.sparse and text is None):
            return empty_side(place, f"target ({language or code})")
    if cells.sparse and all(column[row].as_py() is None for column, _ in cells.targets):
        return empty_side(place, f"target ({', '.join(code for _, code in cells.targets)})")
    score = cells.score[row].as_py() if cells.score is not None else ""
    return DataError(f"{place}: the score is {str(score)[:40]!r}, not a number", hint="leave it empty, or write it like 1.05")


def empty_side(place: str, side: str) -> DataError:
    """One side of a pair has no text."""
    return DataError(f"{place}: the {side} side is empty", hint=f"remove the line; or {SKIPPING}")


def _melted(cells: Cells, languages: pa.Array | None, score: pa.Array | None, good: BoolArray) -> pa.Table:
    """One row for each translation, those of a line together and in the order of the columns."""
    rows = np.flatnonzero(good)
    ways = len(cells.targets)
    per_row = pa.array(np.repeat(rows, ways)) if ways > 1 or len(rows) < len(cells.lines) else None

    def repeated(column: pa.Array) -> pa.Array:
        return column if per_row is None else column.take(per_row)

    count = len(rows) * ways
    if ways == 1:
        target = repeated(cells.targets[0][0])
    else:
        # Columns lie one behind the other; row by row is a transposition of the places.
        every = pa.concat_arrays([column for column, _ in cells.targets])
        places = (rows[:, None] + len(cells.lines) * np.arange(ways)[None, :]).ravel()
        target = every.take(pa.array(places))
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

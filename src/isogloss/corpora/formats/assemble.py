"""From columns of text to blocks of pairs: check all cells at once, report bad lines, give one row per translation."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.formats.layout import Layout
from isogloss.corpora.reading.blocks import BLOCK_SCHEMA
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.lines import LineBlock
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.errors import DataError
from isogloss.types import TEST, TRAIN, BoolArray, IntArray

SPLITS = ("", TRAIN, TEST)
BLANK = DataError("a blank line")


class Cells(NamedTuple):
    """Trimmed text, one row per translation; null where there is none. Of a line, all rows are used or none."""

    lines: IntArray
    source: pa.StringArray
    target: pa.StringArray
    language: pa.StringArray
    split: pa.StringArray
    score: pa.StringArray


def trimmed(cells: pa.Array) -> pa.Array:
    """Without whitespace at either end, as `str.strip` sees it."""
    return pc.utf8_trim_whitespace(cells)


def by_translation(layout: Layout, column: Callable[[int], pa.Array], lines: IntArray) -> Cells:
    """The columns of a layout with one row per translation. A null among several translations is skipped."""
    targets = [column(place) for place, _ in layout.targets]
    present = np.stack([_mask(target.is_valid()) for target in targets], axis=1)
    line, way = np.nonzero(present | ~present.any(axis=1, keepdims=True))

    def repeated(place: int | None) -> pa.Array:
        if place is None:
            return pa.nulls(len(line), pa.string())
        return column(place) if len(targets) == 1 else column(place).take(pa.array(line))

    target = targets[0] if len(targets) == 1 else pa.concat_arrays(targets).take(pa.array(line + way * len(lines)))
    codes = pa.array([code for _, code in layout.targets], pa.string()).take(pa.array(way))
    language = codes if layout.language is None else repeated(layout.language)
    return Cells(lines[line], repeated(layout.source), target, language, repeated(layout.split), repeated(layout.score))


def line_faults(block: LineBlock, wrong: BoolArray, explain: Callable[[int], DataError]) -> dict[int, DataError]:
    """The lines of a block that are not pairs: blank, not UTF-8, or `wrong` for the reason that `explain` gives for a row."""
    blank = _mask(pc.utf8_is_space(block.text()))
    found = {block.first + row: explain(row) for row in np.flatnonzero(wrong & ~blank).tolist()}
    return found | dict.fromkeys((block.first + np.flatnonzero(blank)).tolist(), BLANK) | block.faults


def assemble(cells: Cells, place: str, faults: Faults, known: Mapping[int, DataError]) -> pa.Table:
    """The pairs of the good lines; the others go to `faults` in their order.

    `known` has errors by line number that the format has found already, `BLANK` for a line to be skipped. `place` is
    "FILE line", for messages.
    """
    score, bad_score = _numbers(cells.score)
    language, bad_language = _codes(cells.language)
    split = pc.fill_null(cells.split, "")
    bad = _is_empty(cells.source) | _is_empty(cells.target) | bad_score | bad_language
    bad |= ~_mask(pc.is_in(split, value_set=pa.array(SPLITS))) | np.isin(cells.lines, np.fromiter(known, np.int64))
    bad_lines, first = np.unique(cells.lines[bad], return_index=True)
    for row in np.flatnonzero(bad)[np.sort(first)].tolist():
        line = int(cells.lines[row])
        error = known.get(line) or _cell_error(cells, row, f"{place} {line}")
        if error is not BLANK:
            faults.add(error)
    columns = [cells.source, cells.target, language, split, score, pa.array(cells.lines)]
    table = pa.Table.from_arrays(columns, schema=BLOCK_SCHEMA)
    return table.filter(pa.array(~np.isin(cells.lines, bad_lines))) if len(bad_lines) else table


def _mask(values: pa.BooleanArray) -> BoolArray:
    mask: BoolArray = values.to_numpy(zero_copy_only=False)
    return mask


def _is_empty(column: pa.Array) -> BoolArray:
    return _mask(pc.fill_null(pc.equal(pc.binary_length(column), 0), True))


def _codes(language: pa.Array) -> tuple[pa.Array, BoolArray]:
    """Languages as canonical codes, and where they are not codes."""
    coded = language.dictionary_encode()
    known = [canonical(code) if is_shaped_like_a_code(code) else None for code in coded.dictionary.to_pylist()]
    codes = pa.array(known, pa.string()).take(coded.indices)
    return codes, _mask(codes.is_null())


def _numbers(score: pa.Array) -> tuple[pa.Array, BoolArray]:
    """Scores as numbers (null where empty), and where they are neither."""
    try:
        numbers = pc.cast(pc.if_else(pc.equal(score, ""), pa.scalar(None, pa.string()), score), pa.float32())
    except pa.ArrowInvalid:
        numbers = pa.array([_number(text) for text in score.to_pylist()], pa.float32())
    return numbers, ~np.isfinite(pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False))


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return float("nan")


def _cell_error(cells: Cells, row: int, place: str) -> DataError:
    """What is wrong with a row: the first of its split, sides, language and score that is not valid."""
    source, target, code, split, score = (column[row].as_py() or "" for column in cells[1:])
    if split not in SPLITS:
        return DataError(f"{place}: the split is {split[:40]!r}", hint="it must be train, test, or empty")
    if not source or not target:
        return empty_side(place, f"target ({code})" if source else "source")
    if not is_shaped_like_a_code(code):
        what = f"{code[:40]!r}, not a code" if code else "empty"
        return DataError(f"{place}: the language is {what}", hint="every line needs its language code, such as de")
    return DataError(f"{place}: the score is {score[:40]!r}, not a number", hint="leave it empty, or write it like 1.05")


def empty_side(place: str, side: str) -> DataError:
    """The error for a side without text."""
    return DataError(f"{place}: the {side} side is empty", hint=f"remove the line; or {SKIPPING}")

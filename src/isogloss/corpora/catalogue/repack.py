"""Convert unusual layouts to tab-separated text with a header of language codes.

"scored" is a score and two sentences without a header, as in WikiMatrix. "csv in zip" is several CSV files in an archive with
one column per language, as in SCB-MT-EN-TH-2020.
"""

import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from isogloss.corpora.catalogue.entries import Languages
from isogloss.corpora.reading.compression import members
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.corpora.reading.tables import csv_rows
from isogloss.errors import DataError

CHANGED = "the layout of the corpus has changed: see its page, and report it to us"
Cells = tuple[str, ...]
_BREAKS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def repack(layout: str, original: Path, out: Path, languages: Languages, min_score: float | None) -> int:
    """Convert `original` to `out` (gzip, reproducible bytes) and return the number of pairs."""
    if layout == "scored":
        return write_lines(out, (*languages, "score"), _scored(original, min_score))
    return write_lines(out, languages, _csv_in_zip(original, languages))


def write_lines(out: Path, header: Sequence[str], lines: Iterable[Sequence[str]]) -> int:
    """Write gzipped tab-separated text without a file name or date, so that equal lines give equal bytes."""
    count = 0
    with (
        out.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as handle,
    ):
        handle.write("\t".join(header) + "\n")
        for cells in lines:
            handle.write("\t".join(cells) + "\n")
            count += 1
    return count


def _scored(original: Path, min_score: float | None) -> Iterator[Cells]:
    for number, line in numbered_lines(original):
        try:
            score, first, second = line.rstrip("\r\n").split("\t")
            good = min_score is None or float(score) >= min_score
        except ValueError as error:
            raise DataError(f"{original} line {number}: not a score and two sentences", hint=CHANGED) from error
        if good:
            yield _one_line(first), _one_line(second), score


def _csv_in_zip(original: Path, languages: Languages) -> Iterator[Cells]:
    tables = [member for member in members(original) if member.endswith(".csv") and "__MACOSX" not in member]
    if not tables:
        raise DataError(f"{original}: no CSV file in it", hint=CHANGED)
    for member in tables:
        name = f"{original}:{member}"
        rows = csv_rows(name, numbered_lines(original, member))
        places = _columns(next(rows, (0, []))[1], languages, name)
        for _, cells in rows:
            if len(cells) > max(places):
                yield _one_line(cells[places[0]]), _one_line(cells[places[1]])


def _columns(header: Sequence[str], languages: Languages, where: str) -> tuple[int, int]:
    """The columns of the two languages: `en_text` or `en`."""
    codes = [re.split(r"[\W_]", name.strip().casefold())[0] for name in header]
    try:
        return codes.index(languages[0]), codes.index(languages[1])
    except ValueError as error:
        raise DataError(
            f"{where}: no columns for {languages[0]} and {languages[1]} in {', '.join(header)}", hint=CHANGED
        ) from error


def _one_line(text: str) -> str:
    """Text without tabs and line breaks."""
    return _BREAKS.sub(" ", text).strip()

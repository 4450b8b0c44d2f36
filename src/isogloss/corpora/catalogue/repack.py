"""Convert unusual layouts to tab-separated text with a header of language codes.

"scored" is a score and two sentences without a header, as in WikiMatrix. "csv in zip" is several CSV files in an archive with
one column per language, as in SCB-MT-EN-TH-2020.
"""

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from isogloss.corpora.catalogue.entries import Languages
from isogloss.corpora.reading.compression import ARCHIVE_FAULTS
from isogloss.errors import DataError

CHANGED = "the layout of the corpus has changed: see its page, and report it to us"
NOT_UTF8 = "it is damaged on the server, or no longer UTF-8: see its page, and report it to us"
Cells = tuple[str, ...]
_BREAKS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def repack(layout: str, original: Path, out: Path, languages: Languages, min_score: float | None) -> int:
    """Convert `original` to `out` (gzip, reproducible bytes) and return the number of pairs."""
    if layout == "scored":
        return write_lines(out, (*languages, "score"), _whole(original, _scored(original, min_score)))
    return write_lines(out, languages, _whole(original, _csv_in_zip(original, languages)))


def _whole(original: Path, lines: Iterator[Cells]) -> Iterator[Cells]:
    """The lines of a file, with damage explained."""
    try:
        yield from lines
    except (*ARCHIVE_FAULTS, OSError) as error:
        raise DataError(f"{original}: damaged ({error})", hint="run the same command again to download it again") from error


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
    with gzip.open(original, "rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                cells = line.decode().rstrip("\r\n").split("\t")
            except UnicodeDecodeError as error:
                raise DataError(f"{original} line {number}: not UTF-8", hint=NOT_UTF8) from error
            try:
                score, first, second = cells
                good = min_score is None or float(score) >= min_score
            except ValueError as error:
                raise DataError(
                    f"{original} line {number}: not a score and two sentences", hint="has the file changed?"
                ) from error
            if good:
                yield _one_line(first), _one_line(second), score


def _csv_in_zip(original: Path, languages: Languages) -> Iterator[Cells]:
    with zipfile.ZipFile(original) as archive:
        members = sorted(one for one in archive.namelist() if one.endswith(".csv") and "__MACOSX" not in one)
        if not members:
            raise DataError(f"{original}: no CSV file in it", hint=CHANGED)
        for member in members:
            with archive.open(member) as raw:
                table = _table(raw, f"{original}:{member}")
                places = _columns(next(table, []), languages, f"{original}:{member}")
                for cells in table:
                    if len(cells) > max(places):
                        yield _one_line(cells[places[0]]), _one_line(cells[places[1]])


def _table(raw: IO[bytes], where: str) -> Iterator[list[str]]:
    """The rows of a CSV file; bytes that are not UTF-8 raise with their line."""
    with io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        table = csv.reader(handle)
        try:
            for cells in table:
                "".join(cells).encode()
                yield cells
        except UnicodeEncodeError as error:
            raise DataError(f"{where} line {table.line_num}: not UTF-8", hint=NOT_UTF8) from error
        except csv.Error as error:
            raise DataError(f"{where} line {table.line_num}: not CSV ({error})", hint=CHANGED) from error


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

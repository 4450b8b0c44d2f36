"""Test sets as files in a folder, in the layout of their publishers, plain or compressed (.gz .xz .zst .bz2)."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora.reading.compression import SUFFIXES, open_stream
from isogloss.errors import DataError
from isogloss.evaluation.data.known_sets import KnownSet, SetLayout
from isogloss.evaluation.leak_report import SetFile

PIECE = 2**20


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of text, and the file that they are from."""

    columns: tuple[list[str], ...]
    origin: SetFile


class Folder:
    """A folder of test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser()
        self.name = str(self.folder)
        if not self.folder.is_dir():
            raise DataError(f"{folder}: no such folder of test sets", hint="--data names one, or `hub`")

    def read(self, known: KnownSet, a: str, b: str, split: str, part: str = "") -> Columns | None:
        """The columns of one file; None if it is missing."""
        layout = known.gold if part == "gold" and known.gold else known.folder
        for left, right in ((a, b), (b, a))[: 1 + known.either_order]:
            for pattern in layout.paths:
                name = pattern.format(a=left, b=right, split=split, part=part, code=known.codes.get(left, left))
                for path in (self.folder / f"{name}{suffix}" for suffix in ("", *SUFFIXES)):
                    if path.is_file():
                        return Columns(read_columns(path, layout), SetFile(f"{path.parent.name}/{path.name}", path))
        return None


def read_columns(path: Path, layout: SetLayout) -> tuple[list[str], ...]:
    """The columns of a file that a layout names."""
    lines = _lines(path)
    first = 1 if layout.header else 0
    if not layout.columns:
        return (lines[first:],)
    try:
        rows: Sequence[Sequence[str]] = list(csv.reader(lines)) if layout.comma else [line.split("\t") for line in lines]
    except csv.Error as error:
        raise DataError(f"{path}: not CSV ({error})", hint="is it the original file?") from error
    for number, row in enumerate(rows[first:], first + 1):
        if len(row) <= max(layout.columns):
            raise DataError(
                f"{path} line {number}: {amount(len(row), 'column')}, expected {max(layout.columns) + 1} or more",
                hint="is it the original file? test sets are read in their original layout",
            )
    return tuple([row[column].strip() for row in rows[first:]] for column in layout.columns)


def _lines(path: Path) -> list[str]:
    """The lines of a file. Only a line feed ends a line, so that aligned files stay aligned."""
    with open_stream(path) as stream:
        content = b"".join(iter(lambda: stream.read(PIECE), b""))
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start})", hint="convert it to UTF-8") from error
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]

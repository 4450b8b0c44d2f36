"""Test sets as files in a folder, in the layout of their publishers, plain or compressed (.gz .xz .zst .bz2)."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora.reading.compression import SUFFIXES, open_stream
from isogloss.errors import DataError
from isogloss.evaluation.leak_report import Origin

PIECE = 2**20


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the file of a set is in the data folder, and which of its columns are used, in which order.

    The first of `paths` that exists is read; `{a}`, `{b}` (languages), `{split}`, `{part}` and `{code}` (the language in the
    hub's spelling) are filled in. No columns: the whole line.
    """

    paths: tuple[str, ...]
    columns: tuple[int, ...] = ()
    header: bool = False
    comma: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of text, and the file that they are from."""

    columns: tuple[list[str], ...]
    origin: Origin


class Folder:
    """A folder of test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser()
        if not self.folder.is_dir():
            raise DataError(f"{folder}: no such folder of test sets", hint="--data names one, or `hub`")

    @property
    def name(self) -> str:
        """The name of the source in results."""
        return str(self.folder)

    def read(self, layout: Layout, **asked: str) -> Columns | None:
        """The columns of one file; None if it is missing."""
        for pattern in layout.paths:
            for suffix in ("", *SUFFIXES):
                path = self.folder / (pattern.format(**asked) + suffix)
                if path.is_file():
                    return Columns(_columns(path, layout), Origin(f"{path.parent.name}/{path.name}", path))
        return None


def _columns(path: Path, layout: Layout) -> tuple[list[str], ...]:
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
    pieces = []
    with open_stream(path) as stream:
        while piece := stream.read(PIECE):
            pieces.append(piece)
    try:
        text = b"".join(pieces).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start})", hint="convert it to UTF-8") from error
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]

"""The ids and texts of an index whose file has only vectors: line i of the one belongs to row i of the other.

    docs.npy and docs.jsonl      {"id": "a1", "text": "…"}, as `isogloss index build` writes it; BEIR's _id and title, too
             or docs.tsv         id<TAB>text
             or docs.ids.txt     one id per line
    ids=FILE                     any of these under another name
    texts=FILE                   one text per line: the file that `isogloss embed` was given

Without such a file, ids are row numbers from 0. Texts stay on disk and are read when they are asked for.
"""

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from isogloss.amounts import amount
from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.shapes import COUNT, NOTHING, TEXT, check, parse_json

OPTIONS = ("ids", "texts")
BESIDE = (".jsonl", ".tsv", ".ids.txt")
RECORD = {"id?": (TEXT, COUNT), "_id?": (TEXT, COUNT), "text?": (TEXT, NOTHING), "title?": (TEXT, NOTHING)}


class Texts(Protocol):
    """Texts that are read by row."""

    def of(self, rows: Sequence[int]) -> list[str]:
        """The texts of some rows."""
        ...


class RowLabels:
    """The id of each row, and its text if there is one."""

    def __init__(self, ids: list[str], texts: Texts | None) -> None:
        self.ids, self._texts = ids, texts

    @property
    def has_texts(self) -> bool:
        """Whether rows have texts."""
        return self._texts is not None

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each id; of equal ids the first counts."""
        return {name: row for row, name in reversed(list(enumerate(self.ids)))}

    def texts_of(self, rows: Sequence[int]) -> list[str] | None:
        """The texts of some rows; None if there are none."""
        return None if self._texts is None else self._texts.of(rows)

    def by_id(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts by id."""
        known = [one for one in dict.fromkeys(ids) if one in self.row_of]
        return dict(zip(known, self.texts_of([self.row_of[one] for one in known]) or [], strict=False))


class TextLines:
    """The texts in a file, by line."""

    def __init__(self, path: Path, starts: "array[int]", suffix: str) -> None:
        self.path, self._starts, self._suffix = path, starts, suffix

    def of(self, rows: Sequence[int]) -> list[str]:
        """The texts of some lines, counted from 0."""
        with self.path.open("rb") as handle:
            found = []
            for row in rows:
                handle.seek(self._starts[row])
                found.append(parsed_label(self.path, row + 1, handle.readline(), self._suffix)[1] or "")
        return found


def labels_of(address: Address, rows: int) -> RowLabels:
    """The labels of an index with this many rows."""
    ids, texts = [str(row) for row in range(rows)], None
    beside = (address.path.with_name(address.path.stem + ending) for ending in BESIDE)
    named = address.option("ids")
    if path := Path(named) if named else next(filter(Path.is_file, beside), None):
        ids, texts = _read(path, path.suffix)
        _refuse_other_length(path, len(ids), address, rows)
    if named := address.option("texts"):
        lines, texts = _read(Path(named), "")
        _refuse_other_length(Path(named), len(lines), address, rows)
    return RowLabels(ids, texts)


def _read(path: Path, suffix: str) -> tuple[list[str], TextLines | None]:
    """The ids in a file, and its texts if it has any in the first line. Without a suffix, a line is a text."""
    if suffix not in (".jsonl", ".tsv", ".txt", ""):
        raise DataError(f"{path}: ids cannot be read from this file", hint="name a .jsonl, .tsv or .txt file, not compressed")
    ids, starts, has_texts = list[str](), array("q"), False
    for start, (name, text) in _lines(path, suffix):
        has_texts = text is not None if not ids else has_texts
        ids.append(name)
        starts.append(start)
    return ids, TextLines(path, starts, suffix) if has_texts else None


def _lines(path: Path, suffix: str) -> Iterator[tuple[int, tuple[str, str | None]]]:
    """The byte where each line begins, its id, and its text."""
    try:
        with path.open("rb") as handle:
            start = 0
            for number, line in enumerate(handle, 1):
                yield start, parsed_label(path, number, line, suffix)
                start += len(line)
    except FileNotFoundError as error:
        raise DataError(
            f"{path}: no such file", hint="it should have the ids or texts of the index, one row per line"
        ) from error


def parsed_label(path: Path, number: int, line: bytes, suffix: str) -> tuple[str, str | None]:
    """The id and the text in a line of a file."""
    try:
        text = line.decode().rstrip("\r\n")
        if suffix == ".jsonl":
            record = check(parse_json(text), RECORD)
            name = record.get("id", record.get("_id"))
            if name is None:
                raise ValueError("it has no id")
            return str(name), joined_title(record.get("title"), record["text"]) if record.get("text") is not None else None
    except ValueError as error:  # UnicodeDecodeError is one
        raise DataError(
            f"{path} line {number}: not the label of a row ({str(error)[:80]})", hint='write {"id": "…", "text": "…"} per row'
        ) from error
    if suffix == ".tsv":
        name, tab, rest = text.partition("\t")
        return name, rest if tab else None
    return ("", text) if not suffix else (text, None)


def joined_title(title: str | None, text: str) -> str:
    """A title and a text as one text, as in BEIR."""
    return f"{title or ''} {text}".strip()


def _refuse_other_length(path: Path, lines: int, address: Address, rows: int) -> None:
    if lines != rows:
        raise DataError(
            f"{path} has {amount(lines, 'line')}, but {address.shown} has {amount(rows, 'row')}",
            hint="line i belongs to row i; name another file with ids=FILE",
        )

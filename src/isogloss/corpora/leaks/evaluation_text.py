"""The sentences of evaluation sets in any layout: plain lines, tables, JSON, Parquet, translation memories, gettext catalogs.

Files are read as cells with their columns. A column holds sentences if nearly all cells have letters, are not identifiers
(`zh-000123`, `MSRvid`), and have several words or rarely repeat. Labels, scores and ids do not count: protecting the word
"neutral" would drop dictionary entries. Binary files and unknown encodings give no cells: a user sees that a set is empty,
but not that it is noise.
"""

import csv
import io
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path, PurePath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora import phrasebook, questions
from isogloss.corpora.formats import mo, po, tmx
from isogloss.corpora.reading.compression import PARQUET_FAULTS, is_archive, looks_packed, members, open_stream, unpacked_name
from isogloss.corpora.reading.sources import Source
from isogloss.corpora.store import Store, is_store, open_store
from isogloss.corpora.text import characters
from isogloss.errors import DataError
from isogloss.shapes import parse_json
from isogloss.types import TEST

logger = logging.getLogger(__name__)

NOT_DATA = re.compile(r"(licen[cs]e|readme|copying|notice|\.).*|.*\.(md|py|pdf)")
TRANSLATIONS = {".tmx": tmx.texts, ".po": po.texts, ".mo": mo.texts}  # in all languages they have
MANY_KEYS = 50  # an object with more is a mapping, not a record
SAMPLE = 1000  # lines or cells that are examined
FEW = 20  # cells; below this, repetition says little
SEVERAL_WORDS = 3  # "not entailment" is a label, "it is raining" a sentence
LETTERS_PER_WORD = 4  # in scripts without spaces; generous, so that short labels stay labels
IDENTIFIER = re.compile(r"[\w.:/#-]*[\d_][\w.:/#-]*")
URL = re.compile("://")  # STS sets have columns of them
BETWEEN_WORDS = re.compile(r"\W+")

Row = list[tuple[str, str]]  # (column, cell); a column is a path such as "translation/en" and may occur more than once


class Table(NamedTuple):
    """The rows of a file or a member of an archive; a delimited table may have a header."""

    rows: list[Row]
    may_have_header: bool = False


def evaluation_sets(names: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """The name and the sentences of every set; each file of a folder or glob is a set.

    A name that begins with ! excludes the files that match: `["eval", "!*train*"]`. A file without sentences is an error if it
    was named, and an empty set if it was found in a folder.
    """
    excluded = [name[1:] for name in names if name.startswith("!")]
    if names and len(excluded) == len(names):
        raise DataError("leaks.against only has exclusions", hint='name evaluation sets too: ["eval", "!*train*"]')
    for name in (name for name in names if not name.startswith("!")):
        if name == phrasebook.NAME and not Path(name).exists():
            yield f"{name} (test)", pa.array(_phrasebook_test(), pa.string())
        elif name == questions.NAME:  # a default: a folder of that name in the current one must not stand in for it
            yield from _sets_of_files(str(questions.folder()), lambda path: True)
        elif is_store(Path(name)):
            yield f"{Path(name).name} (test)", _held_out(open_store(name))
        else:
            yield from _sets_of_files(name, lambda path: not any(path.match(pattern) for pattern in excluded))


def _sets_of_files(name: str, wanted: Callable[[PurePath], bool]) -> Iterator[tuple[str, pa.Array]]:
    if not name.strip():
        raise DataError("leaks.against has an empty name", hint="name files, folders or globs")
    path, found = Path(name), False
    files = [path]
    if not path.is_file():
        there = path.rglob("*") if path.is_dir() else map(Path, glob(name, recursive=True))
        files = sorted(file for file in there if file.is_file() and may_hold_sentences(file))
    if not files:
        raise DataError(f"{name}: no evaluation text there", hint="leaks.against names files, folders or globs")
    for file in filter(wanted, files):
        # Each sentence once, in order.
        texts = list(dict.fromkeys(text for table in read_tables(file, wanted) for text in _sentences(table)))
        if not texts and path.is_file():
            hint = "leaks.against takes text, tables, JSON, Parquet and archives of these, in UTF-8 or UTF-16"
            raise DataError(f"{file}: no sentences found in it", hint=hint)
        found = found or bool(texts)
        yield file.name if path.is_file() else f"{file.parent.name}/{file.name}", pa.array(texts, pa.string())
    if not found:
        raise DataError(f"{name}: no sentences found in any file there", hint="are they text, tables, JSON or Parquet?")


def _held_out(store: Store) -> pa.Array:
    """The distinct sides of the held-out pairs of a store."""
    tables = (table.filter(pc.equal(table["split"], TEST)) for table in store.tables())
    sides = [chunk for table in tables for name in ("source", "target") for chunk in table[name].chunks]
    return pc.unique(pa.chunked_array(sides, pa.string()))


def _phrasebook_test() -> list[str]:
    rows = [line.split("\t") for line in phrasebook.path().read_text(encoding="utf-8").splitlines()]
    return [cell for _, _, split, *cells in rows if split == TEST for cell in cells]


def _sentences(table: Table) -> Iterator[str]:
    rows = table.rows
    columns = text_columns(rows)
    if table.may_have_header and _has_header(rows, columns):
        rows = rows[1:]
        columns = text_columns(rows)  # again, since the header of a short table can change the result
    cells = (cell.strip() for row in rows for column, cell in row if column in columns)
    return (cell for cell in cells if cell)


def text_columns(rows: Iterable[Row]) -> set[str]:
    """Which columns hold sentences."""
    columns: dict[str, list[str]] = {}
    for row in rows:
        for column, cell in row:
            if filled := cell.strip():
                columns.setdefault(column, []).append(filled)
    return {column for column, cells in columns.items() if _is_text(cells, alone=len(columns) == 1)}


def _is_text(cells: Sequence[str], alone: bool) -> bool:
    # From all over the file, since sets are often sorted by source.
    sample = cells[:: -(-len(cells) // SAMPLE)]
    if _share(_has_letters, sample) <= 0.8 or _share(IDENTIFIER.fullmatch, sample) >= 0.5 or _share(URL.search, sample) > 0.8:
        return False
    if _share(_has_several_words, sample) > 0.5:
        return True
    if len(sample) < FEW:
        return alone or len(set(sample)) > 0.5 * len(sample)
    return len(set(sample)) > 0.2 * len(sample)


def _share(test: Callable[[str], object], cells: Sequence[str]) -> float:
    return sum(bool(test(cell)) for cell in cells) / len(cells)


def _has_letters(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _has_several_words(cell: str) -> bool:
    words = sum(map(_has_letters, cell.split()))
    unspaced = sum(characters.unspaced()[ord(character)] for character in cell if character.isalpha())
    return bool(words + unspaced / LETTERS_PER_WORD >= SEVERAL_WORDS)


def _has_header(rows: Sequence[Row], columns: set[str]) -> bool:
    """Whether the first row names the columns: short words where the rows below have sentences."""
    if len(rows) < 2 or not columns or len(rows[0]) < 2:
        return False
    first = [cell.strip() for column, cell in rows[0] if column in columns]
    below = [cell for row in rows[1:4] for column, cell in row if column in columns]
    return all(len(BETWEEN_WORDS.split(cell)) <= 2 and len(cell) < 20 and cell.isascii() for cell in first) and any(
        " " in cell or not cell.isascii() for cell in below
    )


def may_hold_sentences(path: PurePath) -> bool:
    """Whether a file in a folder may be data: licenses and READMEs are not."""
    return not NOT_DATA.fullmatch(unpacked_name(path.name)[0].lower())


def read_tables(path: Path, wanted: Callable[[PurePath], bool]) -> Iterator[Table]:
    """The table of a file, or those of the wanted members of an archive."""
    if not is_archive(path.name):
        yield _read(path)
        return
    for member in members(path):
        place = path / member
        if wanted(place) and may_hold_sentences(place) and not is_archive(member):
            yield _read(path, member)


def _read(path: Path, member: str = "") -> Table:
    name, packed = unpacked_name((member or path.name).lower())
    where = f"{path}:{member}" if member else str(path)
    for suffix, texts in TRANSLATIONS.items():
        if name.endswith(suffix):
            return Table(list(texts(Source(path=path, member=member, format=suffix[1:], corpus=""))))
    if name.endswith(".parquet") and not packed and not member:
        return Table(_parquet_rows(path, where))
    with open_stream(path, member) as stream:
        data = b"".join(iter(lambda: stream.read(2**20), b""))
    if name.endswith(".parquet"):
        return Table(_parquet_rows(pa.BufferReader(data), where))
    text = _decoded(data)
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return Table(_json_rows(text))
    return Table(_delimited_rows(text, name.endswith(".csv")), may_have_header=True)


def _decoded(data: bytes) -> str:
    """The text, or "" if the bytes are not text. UTF-8 unless a byte-order mark says otherwise."""
    encoding = json.detect_encoding(data[:4])
    encoding = encoding if encoding in ("utf-16", "utf-32") else "utf-8-sig"
    if looks_packed(data[:8]) or (encoding == "utf-8-sig" and data.count(b"\0") > len(data) / 1000):
        return ""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8-sig":
            return ""
        logger.warning("an evaluation file is not UTF-8; it is read as Windows-1252")
        text = data.decode("cp1252", errors="replace")
    return "" if text.count("\ufffd") > len(text) / 10 else text


def _delimited_rows(text: str, commas: bool) -> list[Row]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = lines[:SAMPLE]
    if commas and sum("\t" in line for line in first) <= 0.5 * len(first):
        comma = ";" if lines[0].count(";") > lines[0].count(",") else ","
        usual = csv.field_size_limit(2**31 - 1)
        try:
            split = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=comma) if row]
        finally:
            csv.field_size_limit(usual)  # it is global
    else:
        split = [line.split("\t") for line in lines if line.strip()]
    return [[(str(place), cell) for place, cell in enumerate(row)] for row in split]


def _json_rows(text: str) -> list[Row]:
    """One document, or one per line; up to half of the lines may be malformed."""
    try:
        whole = parse_json(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        records = []
        for line in lines:
            with suppress(ValueError):
                records.append(parse_json(line))
        if len(records) < 0.5 * len(lines):
            return []
    else:
        records = whole if isinstance(whole, list) else [whole]
    return [row for record in records if (row := list(_cells(record, "", among_others=True)))]


def _cells(value: object, path: str, among_others: bool = False) -> Iterator[tuple[str, str]]:
    """Every string in a value, however deep, with its path.

    The items of a list are one column; a list `among_others` is a row, whose items are columns.
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        names_things = _names_things(value, nested=bool(path))
        for key, inner in value.items():
            yield from _cells(inner, f"{path}/{'*' if names_things else key}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _cells(inner, f"{path}/{place if among_others else '[]'}", among_others=True)


def _names_things(value: dict[object, object], nested: bool) -> bool:
    """Whether an object is a mapping of records (`{"q17": {...}, "q18": {...}}`), whose keys are not columns."""
    if len(value) > MANY_KEYS:
        return True
    if all(str(key).isdigit() for key in value):  # row numbers; in a record of strings, column numbers
        return nested or not any(isinstance(inner, str) for inner in value.values())
    kinds = {frozenset(inner) if isinstance(inner, dict) else None for inner in value.values()}
    (kind,) = kinds if len(kinds) == 1 else (None,)
    return kind is not None and len(value) > len(kind)


def _parquet_rows(source: Path | pa.BufferReader, where: str) -> list[Row]:
    try:
        with pq.ParquetFile(source) as file:
            wanted = [field.name for field in file.schema_arrow if "string" in str(field.type)]  # in lists and records, too
            records = file.read(columns=wanted).to_pylist() if wanted else []
    except PARQUET_FAULTS as error:
        raise DataError(f"{where}: not a readable Parquet file ({error})", hint="check leaks.against") from error
    return [[cell for name, value in record.items() for cell in _cells(value, name)] for record in records]

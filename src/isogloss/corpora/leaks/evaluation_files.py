"""Read the files of evaluation sets as cells with their columns: text, tables, JSON, Parquet, TMX, gettext catalogs.

`evaluation_text` decides which columns hold sentences. Binary files and unknown encodings give no cells: an empty set is
visible, noise that counts as checked is not.
"""

import codecs
import csv
import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora.formats import mo, po, tmx
from isogloss.corpora.reading.compression import PARQUET_FAULTS, is_archive, looks_packed, members, open_stream, unpacked_name
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError
from isogloss.shapes import parse_json

logger = logging.getLogger(__name__)

MANY_KEYS = 50  # an object with more is a mapping, not a record
SAMPLE = 1000  # lines
NOT_DATA = re.compile(r"(licen[cs]e|readme|copying|notice|\.).*|.*\.(md|py|pdf)")
# Encodings by their byte-order marks; UTF-32 first, since its mark begins with that of UTF-16.
MARKS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
TRANSLATIONS = {".tmx": tmx.texts, ".po": po.texts, ".mo": mo.texts}  # in all languages they have

Row = list[tuple[str, str]]  # (column, cell); a column is a path such as "translation/en" and may occur more than once


class Table(NamedTuple):
    """The rows of a file or a member of an archive; a delimited table may have a header."""

    rows: list[Row]
    may_have_header: bool = False


def may_hold_sentences(path: PurePath) -> bool:
    """Whether a file in a folder may be data: licences and READMEs are not."""
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
    encoding = next((name for name, marks in MARKS.items() if data.startswith(marks)), "utf-8-sig")
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

"""The sentences of evaluation sets, whatever their layout: plain lines, tables of sentences and scores, JSON lines, Parquet.

Nobody has to say which columns hold sentences. A column does if nearly all its cells have letters, few repeat, and they
are not names of things (`zh-000123`, `MSRvid`). Labels, scores and ids are left alone: guarding the word "neutral" would
throw dictionary entries out.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora import phrasebook
from isogloss.corpora.compression import SUFFIXES, open_stream
from isogloss.errors import DataError
from isogloss.types import TEST

LOOKED_AT = 1000
NOT_TEXT = ("license", "licence", "readme", "copying", "notice", ".")
IDENTIFIER = re.compile(r"[\w.:/#-]*[\d_][\w.:/#-]*")
PLACES = re.compile(r"\W+")


def evaluation_sets(names: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """Every set that is named, with its sentences, one after the other: a file is a set, each file of a folder or glob too.

    A name that begins with ! leaves out the files it fits: `["eval", "!*train*"]`.
    """
    excluded = [name[1:] for name in names if name.startswith("!")]
    for name in (one for one in names if not one.startswith("!")):
        if name == phrasebook.NAME and not Path(name).exists():
            yield f"{name} (test)", pa.array(_phrasebook_test(), pa.string())
            continue
        for path in _files(name):
            texts = [] if any(path.match(pattern) for pattern in excluded) else _texts(path)
            if texts:
                yield _label(path, name), pa.array(texts, pa.string())


def _label(path: Path, name: str) -> str:
    """The file's name, with its folder's where a folder was named."""
    return path.name if Path(name).is_file() else f"{path.parent.name}/{path.name}"


def _files(name: str) -> list[Path]:
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.is_file())
    else:
        anchor = Path(path.anchor) if path.is_absolute() else Path()
        found = sorted(one for one in anchor.glob(str(path.relative_to(anchor))) if one.is_file())
    found = [one for one in found if not one.name.lower().startswith(NOT_TEXT) and one.suffix not in (".md", ".py", ".pdf")]
    if not found:
        raise DataError(f"{name}: no evaluation text there", hint="leaks.against names files, folders or globs")
    return found


def _phrasebook_test() -> list[str]:
    lines = phrasebook.path().read_text(encoding="utf-8").splitlines()
    split = lines[0].split("\t").index("split")
    rows = [line.split("\t") for line in lines[1:]]
    return [cell for row in rows if row[split] == TEST for cell in row[split + 1 :]]


def _texts(path: Path) -> list[str]:
    """The sentences of one file, each once, in order."""
    rows = _rows(path)
    columns = text_columns(rows)
    body = rows[1:] if _has_header(rows, columns) else rows
    cells = (row[column].strip() for row in body for column in columns if column < len(row))
    return list(dict.fromkeys(cell for cell in cells if cell))


def text_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Which columns hold sentences."""
    sample = rows[:LOOKED_AT]
    width = max((len(row) for row in sample), default=0)
    if width == 1:
        return [0]
    return [column for column in range(width) if _is_text([row[column].strip() for row in sample if column < len(row)])]


def _is_text(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    if not filled:
        return False
    with_letters = sum(any(map(str.isalpha, cell)) for cell in filled) / len(filled)
    named = sum(bool(IDENTIFIER.fullmatch(cell)) for cell in filled) / len(filled)
    distinct = len(set(filled)) / len(filled)
    return with_letters > 0.8 and named < 0.5 and distinct > (0.2 if len(filled) >= 20 else 0.5)


def _has_header(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> bool:
    """Whether the first row names the columns: short words where the rows below have sentences."""
    if len(rows) < 2 or not columns or len(rows[0]) < 2:
        return False
    first = [rows[0][column].strip() for column in columns if column < len(rows[0])]
    return all(len(PLACES.split(cell)) <= 2 and len(cell) < 20 and cell.isascii() for cell in first) and any(
        " " in row[column] or not row[column].isascii() for row in rows[1:4] for column in columns if column < len(row)
    )


def _rows(path: Path) -> list[list[str]]:
    name = path.name.lower()
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    if name.endswith(".parquet"):
        return _parquet_rows(path)
    with open_stream(path) as stream:
        text = b"".join(iter(lambda: stream.read(2**20), b"")).decode("utf-8-sig", errors="replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return [cells for line in lines if (cells := list(_strings(line)))]
    tabbed = sum("\t" in line for line in lines[:LOOKED_AT]) > 0.5 * min(len(lines), LOOKED_AT)
    if name.endswith(".csv") and not tabbed:
        csv.field_size_limit(2**31 - 1)
        return [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    return [line.split("\t") for line in lines if line.strip()]


def _parquet_rows(path: Path) -> list[list[str]]:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error})", hint="check leaks.against") from error
    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    columns = [table.column(name).to_pylist() for name in texts]
    return [[cell or "" for cell in row] for row in zip(*columns, strict=True)]


def _strings(line: str) -> Iterator[str]:
    """Every string value of a JSON line, however deep."""
    try:
        waiting = [json.loads(line)] if line.strip() else []
    except ValueError:
        return
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += list(value.values())
        elif isinstance(value, list):
            waiting += value

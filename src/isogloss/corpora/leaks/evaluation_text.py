"""The sentences of evaluation sets in any layout: plain lines, tables of sentences and scores, JSON, Parquet.

A column holds sentences if nearly all cells have letters, are not identifiers (`zh-000123`, `MSRvid`), and have several words
or rarely repeat. Labels, scores and ids do not count: protecting the word "neutral" would drop dictionary entries.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora import phrasebook
from isogloss.corpora.leaks.evaluation_files import Row, Table, may_hold_sentences, read_tables
from isogloss.corpora.store import Store, is_store, open_store
from isogloss.corpora.text import characters
from isogloss.errors import DataError
from isogloss.types import TEST

SIDES = ("source", "target")
SAMPLE = 1000  # cells
FEW = 20  # cells; below this, repetition says little
SEVERAL_WORDS = 3  # "not entailment" is a label, "it is raining" a sentence
LETTERS_PER_WORD = 4  # in scripts without spaces; generous, so that short labels stay labels
IDENTIFIER = re.compile(r"[\w.:/#-]*[\d_][\w.:/#-]*")
PLACES = re.compile(r"\W+")
URL = re.compile("://")  # STS sets have columns of them


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
    sides = [chunk for table in tables for name in SIDES for chunk in table[name].chunks]
    return pc.unique(pa.chunked_array(sides, pa.string()))


def _phrasebook_test() -> list[str]:
    rows = [line.split("\t") for line in phrasebook.path().read_text(encoding="utf-8").splitlines()]
    return [cell for _, _, split, *cells in rows if split == TEST for cell in cells]


def _sentences(table: Table) -> Iterator[str]:
    rows = table.rows
    columns = text_columns(rows)
    if table.may_have_header and _has_header(rows, columns):
        rows = rows[1:]
        columns = text_columns(rows)  # again: in a short table the header can change the result
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
    return all(len(PLACES.split(cell)) <= 2 and len(cell) < 20 and cell.isascii() for cell in first) and any(
        " " in cell or not cell.isascii() for cell in below
    )

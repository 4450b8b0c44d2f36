"""Documents to be indexed, read as a stream: memory does not grow with the files.

    docs.txt        one document per line; its id is the line number, in several files NAME:LINE
    docs.tsv        id<TAB>text, or a header with these and perhaps title
    docs.jsonl      {"id": …, "text": …, "title": …}; BEIR's corpus.jsonl with _id
    docs.csv        a header with id, text and perhaps title
    docs.parquet    columns of these names

Files may be compressed. A title goes before the text. Documents without text are left out and counted.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from isogloss.amounts import amount
from isogloss.corpora.reading.compression import PARQUET_FAULTS, unpacked_name
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.errors import DataError
from isogloss.index.columns import ID_NAMES, TEXT_NAMES
from isogloss.index.row_labels import joined_title, parsed_label
from isogloss.storage import ContentHash, content_hash

HINT = "documents are .txt, .tsv, .jsonl, .csv or .parquet files with an id and a text"
SEPARATORS = ",;\t"
LONGEST_CELL = 2**27  # characters
PARQUET_ROWS = 1024
Row = tuple[str, list[str]]  # its place, for messages, and its cells


class Document(NamedTuple):
    """A text with its id."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class DocumentSurvey:
    """What all documents are, without keeping them."""

    count: int
    skipped: int  # without text
    hash: str


def read_documents(paths: Sequence[str | Path]) -> Iterator[Document]:
    """All documents of some files; those without text are empty."""
    for path in map(Path, paths):
        kind = Path(unpacked_name(path.name)[0]).suffix.lower()
        if kind == ".txt":
            prefix = f"{path.name}:" if len(paths) > 1 else ""
            found: Iterator[tuple[str, str]] = ((f"{prefix}{number}", line) for number, line in numbered_lines(path))
        elif kind == ".jsonl":
            found = _of_json(path)
        elif kind == ".tsv":
            found = _of_table(path, _tab_separated(path), plain=True)
        elif kind == ".csv":
            found = _of_table(path, _comma_separated(path), plain=False)
        elif kind == ".parquet":
            found = _of_table(path, _of_parquet(path), plain=False)
        else:
            raise DataError(f"{path}: documents cannot be read from this file", hint=HINT)
        for name, text in found:
            yield Document(name.strip(), text.replace("\0", " ").strip())


def survey_documents(paths: Sequence[str | Path]) -> DocumentSurvey:
    """Read all documents once: their number and hash. Raises for ids that are missing or not unique."""
    count, skipped, digest, ids = 0, 0, ContentHash(), bytearray()
    for place, document in enumerate(read_documents(paths), 1):
        if not document.id:
            raise DataError(f"{', '.join(map(str, paths))}: document {place} has no id", hint=HINT)
        ids += bytes.fromhex(content_hash(document.id))
        digest.add(document.id, document.text)
        count, skipped = count + bool(document.text), skipped + (not document.text)
    if not count:
        raise DataError(f"{', '.join(map(str, paths))}: there are no documents", hint=HINT)
    _refuse_repeated(ids, paths)
    return DocumentSurvey(count, skipped, digest.name())


def batches(documents: Iterable[Document], size: int, skip: int) -> Iterator[list[Document]]:
    """Documents with text in batches, without the first few."""
    batch: list[Document] = []
    for number, document in enumerate(document for document in documents if document.text):
        if number >= skip:
            batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _refuse_repeated(ids: bytearray, paths: Sequence[str | Path]) -> None:
    """Raise if two of some ids, given by their hashes, are equal."""
    hashes = np.frombuffer(ids, dtype="<u8").reshape(-1, 2)
    order = np.lexsort(hashes.T)
    same = np.flatnonzero((hashes[order[1:]] == hashes[order[:-1]]).all(axis=1))
    if not len(same):
        return
    wanted = sorted(order[same[0] : same[0] + 2].tolist())
    name = next(document.id for row, document in enumerate(read_documents(paths)) if row == wanted[1])
    raise DataError(
        f"{', '.join(map(str, paths))}: the id {name!r} is that of documents {wanted[0] + 1} and {wanted[1] + 1}",
        hint="an id stands for one document: number them, or use the line numbers of a .txt file",
    )


def _of_json(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in numbered_lines(path):
        if not line.isspace():
            name, text = parsed_label(path, number, line.encode(), ".jsonl")
            yield name, text or ""


def _of_table(path: Path, rows: Iterator[Row], plain: bool) -> Iterator[tuple[str, str]]:
    """Ids and texts of rows, the first of which may be a header; `plain` rows without one are an id and a text."""
    first = next(rows, None)
    if first is None:
        return
    header = [cell.strip().lower() for cell in first[1]]
    key, text, title = (_column(header, names) for names in (ID_NAMES, TEXT_NAMES, ("title",)))
    if key is None or text is None:
        if not plain or len(header) < 2:
            raise DataError(f"{path}: its columns are {', '.join(header)[:200]}", hint=f"name them id and text; {HINT}")
        yield first[1][0], "\t".join(first[1][1:])
        yield from ((cells[0], "\t".join(cells[1:])) for _, cells in rows)
        return
    for place, cells in rows:
        if len(cells) < len(header):
            raise DataError(
                f"{place}: {amount(len(cells), 'column')}, expected {len(header)}", hint="is a quote or a tab missing?"
            )
        yield cells[key], joined_title(None if title is None else cells[title], cells[text])


def _column(header: list[str], names: Sequence[str]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _tab_separated(path: Path) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        if line.strip():
            yield f"{path} line {number}", line.rstrip("\r\n").split("\t")


def _comma_separated(path: Path) -> Iterator[Row]:
    lines = (line for _, line in numbered_lines(path))
    if (first := next(lines, None)) is None:
        return
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(chain([first], lines), delimiter=separator, strict=True)
    with _long_cells():
        try:
            yield from ((f"{path} line {reader.line_num}", cells) for cells in reader if cells)
        except csv.Error as error:
            raise DataError(
                f"{path} line {reader.line_num}: not CSV ({error})", hint="is a quote opened and not closed?"
            ) from error


@contextmanager
def _long_cells() -> Iterator[None]:
    usual = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(usual)  # it is global


def _of_parquet(path: Path) -> Iterator[Row]:
    try:
        file = pq.ParquetFile(path, memory_map=True)
        names = file.schema_arrow.names
        columns = [name for name in names if name.lower() in (*ID_NAMES, *TEXT_NAMES, "title")]
        yield str(path), columns or names
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield f"{path} row {number}", ["" if value is None else str(value) for value in row.values()]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", hint="check the path and who may read it") from error
    except PARQUET_FAULTS as error:
        raise DataError(f"{path}: not a readable Parquet file ({str(error)[:80]})", hint="download it again") from error

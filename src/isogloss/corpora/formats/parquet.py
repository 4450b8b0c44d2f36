"""Parquet: columns by name, as in TSV with a header; or the hub's `translation` struct, or `english` and `non_english`."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora.formats.assemble import Cells, assemble, marked, trimmed
from isogloss.corpora.formats.layout import Layout, from_codes, from_header, from_told, parse_columns
from isogloss.corpora.reading.blocks import BLOCK_BYTES, Blocks, cut
from isogloss.corpora.reading.compression import PARQUET_FAULTS, STANDARD_INPUT, unpacked_name
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError
from isogloss.types import BoolArray

NESTED = "translation"
_BATCH = 2**13  # rows: few enough that even long documents make a block and not a memory


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a Parquet file. A null among several translations is one that is not there; numbers are read as text."""
    with _seekable(source) as handle, _explaining(source):
        parquet = pq.ParquetFile(handle)
        schema = parquet.schema_arrow
        nested = NESTED in schema.names and pa.types.is_struct(schema.field(NESTED).type) and not source.columns
        names = [one.name for one in schema.field(NESTED).type] if nested else schema.names
        layout = _layout(names, source, nested)
        used = [names[place] for place in layout.used]
        first = 1
        for batch in parquet.iter_batches(_BATCH, columns=[NESTED] if nested else sorted(set(used))):
            columns = _nested(batch) if nested else {name: batch.column(name) for name in used}
            yield from cut(_pairs(columns, names, layout, first, source, faults))
            first += batch.num_rows


def _layout(names: list[str], source: Source, nested: bool) -> Layout:
    if len(set(names)) < len(names):
        raise DataError(f"{source.name}: two columns have the same name", hint=f"they are: {', '.join(names)[:200]}")
    told = parse_columns(source.columns)
    if told.columns:
        layout: Layout | None = from_told(told, names, source)
    else:
        layout = from_codes(names, source) if nested else from_header(names, source, strict=False)
    if layout is None or layout.width > len(names):
        raise DataError(
            f"{source.name}: no columns to read pairs from; it has {', '.join(names)[:200] or 'none'}",
            hint=f"columns are source and target, language codes, or a {NESTED} struct; or tell them: source=NAME,target=NAME",
        )
    return layout


@contextmanager
def _seekable(source: Source) -> Iterator[IO[bytes]]:
    """The file itself, or a temporary copy where it is packed in something: Parquet is read from its end."""
    packed = source.member or source.path == STANDARD_INPUT or unpacked_name(source.path.name)[1]
    if not packed:
        with source.open():
            pass  # says why it cannot be read, if it cannot
        with source.path.open("rb") as handle:
            yield handle
        return
    with tempfile.TemporaryFile() as copy:
        with source.open() as stream:
            while piece := stream.read(BLOCK_BYTES):
                copy.write(piece)
        copy.seek(0)
        yield copy


@contextmanager
def _explaining(source: Source) -> Iterator[None]:
    try:
        yield
    except PARQUET_FAULTS as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(
            f"{source.name}: not a readable Parquet file ({reason})",
            hint="download it again; if isogloss prepare wrote it, write it again",
        ) from error


def _nested(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    struct = batch.column(NESTED)
    return {one.name: values for one, values in zip(struct.type, struct.flatten(), strict=True)}


def _pairs(
    columns: dict[str, pa.Array], names: list[str], layout: Layout, first: int, source: Source, faults: Faults
) -> pa.Table:
    known: dict[int, DataError] = {}

    def text(place: int) -> pa.Array:
        column, bad = _as_text(columns[names[place]], names[place], source)
        for row in np.flatnonzero(bad).tolist():
            known[row] = DataError(
                f"{source.name} row {first + row}: {names[place]} is not UTF-8", hint="write it again as text"
            )
        return trimmed(column)

    lines = np.arange(first, first + len(columns[names[layout.source]]), dtype=np.int64)
    cells = Cells(
        lines,
        text(layout.source),
        tuple((text(place), code) for place, code in layout.targets),
        text(layout.language) if layout.language is not None else None,
        text(layout.split) if layout.split is not None else None,
        text(layout.score) if layout.score is not None else None,
        sparse=len(layout.targets) > 1,
    )
    return assemble(cells, f"{source.name} row", faults, known.get, marked(known, len(lines)))


def _as_text(column: pa.Array, name: str, source: Source) -> tuple[pa.Array, BoolArray]:
    """A column as strings, whatever its type, and where its bytes are no text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        raise DataError(
            f"{source.name}: the column {name} holds {column.type}, not text", hint="write it as strings, or tell the columns"
        )
    good = np.zeros(len(column), dtype=bool)
    try:
        column = pc.cast(column, pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = pc.cast(column, pa.binary(), safe=False).to_pylist()
        texts = [_decoded(value) for value in raw]
        bad = np.array([text is None and value is not None for text, value in zip(texts, raw, strict=True)])
        return pa.array(texts, pa.string()), bad
    return column, good


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None

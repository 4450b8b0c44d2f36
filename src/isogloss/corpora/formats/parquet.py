"""Parquet files and Arrow tables: columns by name, or a `translation` struct as in Hugging Face datasets."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora.formats.assemble import assemble, by_translation, trimmed
from isogloss.corpora.formats.layout import Layout, from_codes, from_header, from_user, parse_columns
from isogloss.corpora.reading.blocks import BLOCK_BYTES, Blocks, cut
from isogloss.corpora.reading.compression import PARQUET_FAULTS, STANDARD_INPUT, unpacked_name
from isogloss.corpora.reading.lines import is_utf8
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError
from isogloss.types import BoolArray

NESTED = "translation"
BATCH = 2**13  # rows: few enough for long documents


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a Parquet file."""
    with _seekable(source) as handle:
        try:
            parquet = pq.ParquetFile(handle)
            table = TableReader(parquet.schema_arrow, source)
            yield from table.blocks(parquet.iter_batches(BATCH, columns=table.columns), faults)
        except PARQUET_FAULTS as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            hint = "download it again; if isogloss prepare wrote it, write it again"
            raise DataError(f"{source.name}: not a readable Parquet file ({reason})", hint=hint) from error


class TableReader:
    """Reads pairs from the batches of an Arrow table. A null among several translations is skipped."""

    def __init__(self, schema: pa.Schema, source: Source) -> None:
        self._source = source
        nested = NESTED in schema.names and pa.types.is_struct(schema.field(NESTED).type) and not source.columns
        self._names = [one.name for one in schema.field(NESTED).type] if nested else schema.names
        self._layout = _layout(self._names, source, nested)
        used = sorted({self._names[place] for place in self._layout.used})
        self._nested, self.columns = nested, [NESTED] if nested else used

    def blocks(self, batches: Iterable[pa.RecordBatch], faults: Faults) -> Blocks:
        """The pairs of all batches, which need the columns `columns` only."""
        first = 1
        for batch in batches:
            columns = {name: batch.column(name) for name in self.columns}
            if self._nested:
                struct = columns[NESTED]
                columns = {one.name: values for one, values in zip(struct.type, struct.flatten(), strict=True)}
            yield from cut(self._pairs(columns, first, faults))
            first += batch.num_rows

    def _pairs(self, columns: dict[str, pa.Array], first: int, faults: Faults) -> pa.Table:
        known: dict[int, DataError] = {}

        def text(place: int) -> pa.Array:
            name = self._names[place]
            column, bad = _as_text(columns[name], name, self._source)
            for row in np.flatnonzero(bad).tolist():
                message = f"{self._source.name} row {first + row}: {name} is not UTF-8"
                known[first + row] = DataError(message, hint="write it again as text")
            return trimmed(column)

        count = len(next(iter(columns.values())))
        cells = by_translation(self._layout, text, np.arange(first, first + count))
        return assemble(cells, f"{self._source.name} row", faults, known)


def _layout(names: list[str], source: Source, nested: bool) -> Layout:
    if len(set(names)) < len(names):
        raise DataError(f"{source.name}: two columns have the same name", hint=f"they are: {', '.join(names)[:200]}")
    columns = parse_columns(source.columns)
    if columns.places:
        layout: Layout | None = from_user(columns, names, source)
    else:
        layout = from_codes(names, source) if nested else from_header(names, source, strict=False)
    if layout is None or layout.width > len(names):
        raise DataError(
            f"{source.name}: no columns to read pairs from; it has {', '.join(names)[:200] or 'none'}",
            hint=f"columns are source and target, language codes, or a {NESTED} struct; or name them: source=NAME,target=NAME",
        )
    return layout


@contextmanager
def _seekable(source: Source) -> Iterator[IO[bytes]]:
    """The file itself, or a temporary copy if it is compressed: Parquet is read from its end."""
    packed = source.member or source.path == STANDARD_INPUT or unpacked_name(source.path.name)[1]
    if not packed:
        with source.open():
            pass  # explains why it cannot be read
        with source.path.open("rb") as handle:
            yield handle
        return
    with tempfile.TemporaryFile() as copy:
        with source.open() as stream:
            while piece := stream.read(BLOCK_BYTES):
                copy.write(piece)
        copy.seek(0)
        yield copy


def _as_text(column: pa.Array, name: str, source: Source) -> tuple[pa.Array, BoolArray]:
    """A column as strings, whatever its type, and which rows are not UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        raise DataError(
            f"{source.name}: the column {name} holds {column.type}, not text", hint="write it as strings, or name the columns"
        )
    try:
        column = pc.cast(column, pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = pc.cast(column, pa.binary(), safe=False).to_pylist()
        bad = np.array([value is not None and not is_utf8(value) for value in raw])
        texts = [None if value is None or is_bad else value.decode() for value, is_bad in zip(raw, bad, strict=True)]
        return pa.array(texts, pa.string()), bad
    return column, np.zeros(len(column), dtype=bool)

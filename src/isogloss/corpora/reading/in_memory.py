"""Pairs that are in memory: lists, pandas and polars frames, pyarrow tables, Hugging Face datasets.

Each becomes an Arrow table whose columns are understood like those of a Parquet file. Nobody's package is imported for it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.formats.parquet import BATCH, TableReader
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import IN_MEMORY, Source
from isogloss.errors import DataError
from isogloss.types import SCHEMA, Bitext, Pair

PairData = Any  # paths (str, Path or a list of them), or whatever `as_table` understands
Paths = str | Path | Sequence[str | Path]
_ROWS_HINT = "rows are (source, target), (source, target, language) or dicts such as {'en': …, 'de': …}"


def are_paths(data: PairData) -> TypeGuard[Paths]:
    """Whether data are names of files rather than pairs."""
    return isinstance(data, str | Path) or (isinstance(data, list | tuple) and all(isinstance(one, str | Path) for one in data))


def as_bitext(data: PairData, faults: Faults, language: str, source_language: str, columns: str = "") -> Bitext:
    """Pairs in memory as a `Bitext`; a column `corpus` is kept. `language` and `columns` are as for `read`."""
    table, name = as_table(data)
    source = Source(
        path=Path(name),
        called=name,
        format=IN_MEMORY,
        corpus=IN_MEMORY,
        language=language,
        source_language=source_language,
        columns=columns,
    )
    corpora = table.column("corpus").cast(pa.string()) if "corpus" in table.column_names else None
    tables = [SCHEMA.empty_table()]
    for block in TableReader(table.schema, source).blocks(table.to_batches(BATCH), faults):
        corpus = pa.repeat(IN_MEMORY, block.num_rows)
        if corpora is not None:
            corpus = pc.fill_null(corpora.take(pc.subtract(block["line"], 1)), "")
        tables.append(block.append_column("corpus", corpus).select(SCHEMA.names))
    return Bitext(pa.concat_tables(tables).combine_chunks(), source_language)


def as_table(data: PairData) -> tuple[pa.Table, str]:
    """Data as an Arrow table, and what messages call it."""
    package, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, Bitext):
        return data.table, kind
    if package == "datasets" and not isinstance(data, dict):
        return pa.concat_tables(list(data.with_format("arrow").iter(batch_size=10_000))), kind
    if package == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False), kind
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data), kind
    if package == "datasets":
        raise DataError(f"{kind} has several splits: {', '.join(data)}", hint="choose one: dataset['train']")
    if not isinstance(data, Iterable) or isinstance(data, str | bytes | dict):
        raise DataError(f"cannot read pairs from {kind}", hint=f"give paths, a table or a list; {_ROWS_HINT}")
    return _from_rows(list(data)), "the list"


def _from_rows(rows: list[Any]) -> pa.Table:
    if rows and all(isinstance(row, dict) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [[row.get(name) for row in rows] for name in names]
    else:
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, tuple | list) or len(row) not in (2, 3, len(Pair._fields)) or len(row) != len(rows[0]):
                raise DataError(f"row {number} of the list is {str(row)[:80]!r}, not a pair", hint=_ROWS_HINT)
        names = list(Pair._fields[: len(rows[0])]) if rows else list(Pair._fields)
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    try:
        return pa.table(dict(zip(names, columns, strict=True)))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise DataError(f"the list cannot be a table: {str(error).splitlines()[0][:200]}", hint=_ROWS_HINT) from error

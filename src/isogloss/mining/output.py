"""Write scored pairs atomically as TSV, JSON lines or Parquet, by the file's name; .gz and .zst are compressed.

The first columns are score, source and target. `isogloss prepare` reads the file and can filter by the score.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora.reading.compression import unpacked_name
from isogloss.errors import DataError
from isogloss.storage import atomic_write, refuse_folder

ROWS_AT_ONCE = 50_000
FORMS = (".tsv", ".txt", ".jsonl", ".parquet")
CODECS = {"": None, ".gz": "gzip", ".zst": "zstd"}


def refuse_unknown_form(path: Path) -> None:
    """Raise, before any work, if the name does not tell the format."""
    name, packed = unpacked_name(path.name.lower())
    if Path(name).suffix not in FORMS or packed not in CODECS or (packed and name.endswith(".parquet")):
        raise DataError(f"{path}: unknown output format", hint="name the file .tsv, .tsv.gz, .jsonl or .parquet")
    refuse_folder(path)


def write_pairs(pairs: pa.Table, path: Path) -> None:
    """Write scored pairs in the format of the file's name."""
    refuse_unknown_form(path)
    name, packed = unpacked_name(path.name.lower())
    with atomic_write(path) as temporary:
        if name.endswith(".parquet"):
            pq.write_table(pairs, temporary, compression="zstd")
            return
        lines = _json_lines(pairs) if name.endswith(".jsonl") else _tab_separated(pairs)
        with pa.output_stream(str(temporary), compression=CODECS[packed]) as stream:
            for block in lines:
                stream.write(block.encode())


def _json_lines(pairs: pa.Table) -> Iterator[str]:
    for start in range(0, pairs.num_rows, ROWS_AT_ONCE):
        rows = pairs.slice(start, ROWS_AT_ONCE).to_pylist()
        yield "".join(json.dumps(row | {"score": round(row["score"], 6)}, ensure_ascii=False) + "\n" for row in rows)


def _tab_separated(pairs: pa.Table) -> Iterator[str]:
    yield "\t".join(pairs.column_names) + "\n"
    for start in range(0, pairs.num_rows, ROWS_AT_ONCE):
        block = pairs.slice(start, ROWS_AT_ONCE)
        scores = [f"{score:.6f}" for score in block.column("score").to_pylist()]
        others = [block.column(name).to_pylist() for name in pairs.column_names if name != "score"]
        yield "".join("\t".join(row) + "\n" for row in zip(scores, *others, strict=True))

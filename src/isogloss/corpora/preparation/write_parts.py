"""Write the final parts of a store: the kept pairs, and the dropped ones with their reasons."""

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora.preparation.pair_selection import KEPT, ScoredPart, Selection
from isogloss.corpora.preparation.score_blocks import score_column
from isogloss.corpora.store import DROPPED, PAIRS, open_store
from isogloss.corpora.text.arrays import rows_by
from isogloss.errors import DataError
from isogloss.storage import atomic_write, content_hash, file_checksum, make_folder
from isogloss.types import SCHEMA, TEST, TRAIN

TEXTS = ("source", "target", "language")
DROPPED_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in (*TEXTS, "corpus", "reason")), ("score", pa.float32()), ("line", pa.int64())]
)
EXAMPLES, SEED = 3, 17


def write_parts(selection: Selection, out: Path, threads: int = 1) -> list[str]:
    """Write all parts and return their file names; undamaged parts that are already there are left alone."""
    make_folder(out / PAIRS)
    make_folder(out / DROPPED)
    try:
        known = {part["file"]: (part["sha256"], part.get("dropped_sha256", "")) for part in open_store(out).manifest["parts"]}
    except DataError:  # there is no store yet, or a damaged one
        known = {}
    with ThreadPoolExecutor(max(1, threads)) as pool:  # compression and writing release the GIL
        return list(pool.map(lambda part: _write_part(part, selection.reasons, out, known), selection.parts))


def _write_part(part: ScoredPart, reasons: Sequence[str], out: Path, known: Mapping[str, tuple[str, str]]) -> str:
    decided = content_hash(part.reasons.tobytes(), part.test.tobytes(), *reasons)[:8]
    name = f"{part.path.stem}-{decided}.parquet"
    pairs, dropped = out / PAIRS / name, out / DROPPED / name
    if known.get(name) == (file_checksum(pairs), file_checksum(dropped)):
        return name
    scores = {reasons.index(rule.name): score_column(rule) for rule in part.rules}
    with (
        atomic_write(dropped) as dropped_path,
        atomic_write(pairs) as pairs_path,
        pq.ParquetWriter(dropped_path, DROPPED_SCHEMA, compression="zstd") as dropped_file,
        pq.ParquetWriter(pairs_path, SCHEMA, compression="zstd") as pairs_file,
    ):
        for rows, scored in part.batches([*TEXTS, "line", *scores.values()]):
            reason = part.reasons[rows]
            score = np.full(len(reason), np.nan, dtype=np.float32)  # that a pair was dropped for
            for number, column in scores.items():
                score[reason == number] = scored.column(column).to_numpy()[reason == number]
            columns = {column: scored.column(column) for column in (*TEXTS, "line")}
            columns["corpus"] = pa.repeat(part.corpus, len(reason))
            columns["split"] = pa.array(np.where(part.test[rows], TEST, TRAIN))
            columns["reason"] = pa.array(reasons).take(pa.array(reason))
            columns["score"] = pa.array(score, from_pandas=True)
            table = pa.table(columns)
            pairs_file.write_table(table.filter(pa.array(reason == KEPT)).select(SCHEMA.names))
            if reason.any():
                dropped_file.write_table(table.filter(pa.array(reason != KEPT)).select(DROPPED_SCHEMA.names))
    return name


def examples(
    files: Iterable[Path], each: int = EXAMPLES, seed: int = SEED, characters: int = 100
) -> dict[str, list[dict[str, Any]]]:
    """`each` random dropped pairs for every reason, for JSON, with long sides cut; the same ones for the same seed."""
    random = np.random.default_rng(seed)
    drawn: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                tickets = random.random(table.num_rows)
                for reason, own in rows_by(table.column("reason")):
                    own = own[np.argsort(tickets[own])[:each]]
                    rows = table.take(pa.array(own)).drop_columns("reason").to_pylist()
                    new = [(tickets[place], _example(row, characters)) for place, row in zip(own, rows, strict=True)]
                    drawn[reason] = sorted(drawn.get(reason, []) + new, key=lambda one: one[0])[:each]
    return {reason: [example for _, example in found] for reason, found in drawn.items()}


def _example(row: dict[str, Any], characters: int) -> dict[str, Any]:
    score = row["score"]  # that the pair was dropped for; None if no rule scored it, and JSON has no infinity
    score = None if score is None or not math.isfinite(score) else round(score, 4)
    return row | {"source": row["source"][:characters], "target": row["target"][:characters], "score": score}

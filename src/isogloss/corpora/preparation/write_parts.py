"""The pairs that were left out, each with its reason and its score: written beside the store, and drawn from for examples."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora.preparation.pair_selection import KEPT, Scored
from isogloss.storage import atomic_write

TEXTS = ("source", "target", "language", "corpus", "reason")
DROPPED_SCHEMA = pa.schema([*((name, pa.string()) for name in TEXTS), ("score", pa.float32()), ("line", pa.int64())])
EXAMPLES = 3
SEED = 17


@dataclass(frozen=True, slots=True)
class Example:
    """A pair that was left out, and the score that it was left out for (none where no rule scored it)."""

    source: str
    target: str
    language: str
    corpus: str
    score: float | None
    line: int

    def as_dict(self, shown: int = 100) -> dict[str, Any]:
        """For a manifest: long sides are cut."""
        score = None if self.score is None or not math.isfinite(self.score) else round(self.score, 4)  # JSON has no infinity
        return asdict(self) | {"source": self.source[:shown], "target": self.target[:shown], "score": score}


def write_dropped(part: Scored, reasons: Sequence[str], path: Path) -> None:
    """Write what goes of a part."""
    names = pa.array(reasons)
    scored = {number: name for number, name in enumerate(reasons) if f"score {name}" in part.columns()}
    with atomic_write(path) as temporary, pq.ParquetWriter(temporary, DROPPED_SCHEMA, compression="zstd") as writer:
        for rows, table in part.batches(["source", "target", "language", "line", *(f"score {n}" for n in scored.values())]):
            gone = np.flatnonzero(part.reasons[rows] != KEPT)
            if not len(gone):
                continue
            some, why = table.take(pa.array(gone)), part.reasons[rows][gone]
            score = np.full(len(gone), np.nan, dtype=np.float32)
            for number, name in scored.items():
                score[why == number] = some.column(f"score {name}").to_numpy()[why == number]
            columns = [*(some.column(name) for name in TEXTS[:3]), pa.repeat(part.corpus, len(gone))]
            columns += [names.take(pa.array(why)), pa.array(score, from_pandas=True), some.column("line")]
            writer.write_table(pa.table(columns, schema=DROPPED_SCHEMA))


def examples(files: Iterable[Path], each: int = EXAMPLES, seed: int = SEED) -> dict[str, list[Example]]:
    """For every reason, `each` pairs drawn at random; the same ones for the same seed."""
    random = np.random.default_rng(seed)
    drawn: dict[str, list[tuple[float, Example]]] = {}
    for table in _tables(files):
        tickets = random.random(table.num_rows)
        reasons = table.column("reason").combine_chunks().dictionary_encode()
        for number, reason in enumerate(reasons.dictionary.to_pylist()):
            own = np.flatnonzero(reasons.indices.to_numpy() == number)
            own = own[np.argsort(tickets[own])[:each]]
            rows = table.take(pa.array(own)).drop_columns("reason").to_pylist()
            found = drawn.get(reason, []) + [(tickets[place], Example(**row)) for place, row in zip(own, rows, strict=True)]
            drawn[reason] = sorted(found, key=lambda one: one[0])[:each]
    return {reason: [one for _, one in found] for reason, found in drawn.items()}


def _tables(files: Iterable[Path]) -> Iterator[pa.Table]:
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)

"""Examples of what was left out: drawn from all of it, each pair as likely as any other, the same ones for the same seed."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.corpora.preparation.write_parts import DROPPED_SCHEMA, examples


def test_every_pair_is_as_likely_as_any_other(tmp_path: Path) -> None:
    files = []
    for file in range(2):
        rows = [
            {
                "source": f"{file}-{n}",
                "target": "x",
                "language": "de",
                "corpus": "c",
                "reason": ("copy", "long")[n % 2],
                "line": n,
            }
            for n in range(20)
        ]
        files.append(tmp_path / f"{file}.parquet")
        pq.write_table(pa.Table.from_pylist(rows, schema=DROPPED_SCHEMA), files[-1], row_group_size=12)
    drawn: Counter[str] = Counter()
    for seed in range(100):
        found = examples(files, each=3, seed=seed)
        assert {reason: len(own) for reason, own in found.items()} == {"copy": 3, "long": 3}
        assert all(one["line"] % 2 == (reason == "long") for reason, own in found.items() for one in own)
        drawn.update(one["source"] for own in found.values() for one in own)
    assert len(drawn) == 40 and min(drawn.values()) > 3 and max(drawn.values()) < 35, "each about 15 times"
    assert examples(files, seed=7) == examples(files, seed=7) != examples(files, seed=8)
    assert len(examples(files, each=50)["copy"]) == 20

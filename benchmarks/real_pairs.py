"""Real pairs from the shared data folder, as many as a benchmark needs: real sentences first, then two real ones in a row."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources

SENTENCES = ("tatoeba", "libreoffice", "mediawiki", "wesnoth", "nli_mt", "stsb_mt_train", "ebible", "wmt_newstest", "tico19")


def real(data: Path, language: str, corpora: Sequence[str] = SENTENCES) -> pa.Table:
    """All real pairs of a language: columns source and target."""
    found = [path for corpus in corpora for path in sorted((data / "train" / corpus).glob(f"en-{language}.tsv.gz"))]
    blocks = [block.select(["source", "target"]) for source in find_sources(found) for block in stream(source, Faults("skip"))]
    return pa.concat_tables(blocks).combine_chunks()


def enough(data: Path, language: str, rows: int, seed: int) -> Iterator[pa.Table]:
    """`rows` pairs of a language in pieces: the real ones, then pairs of pairs, drawn at random and joined by a space."""
    table = real(data, language)
    yield table.slice(0, rows)
    random = np.random.default_rng([seed, sum(map(ord, language))])
    missing = rows - table.num_rows
    while missing > 0:
        size = min(missing, 200_000)
        one, other = (table.take(pa.array(random.integers(0, table.num_rows, size))) for _ in range(2))
        joined = {name: pc.binary_join_element_wise(one.column(name), other.column(name), " ") for name in ("source", "target")}
        yield pa.table(joined)
        missing -= size


def lines(table: pa.Table, column: str) -> bytes:
    """One side, a line each."""
    return ("\n".join(table.column(column).to_pylist()) + "\n").encode()


def tsv(table: pa.Table) -> bytes:
    """Both sides, tab-separated."""
    joined = pc.binary_join_element_wise(table.column("source"), table.column("target"), "\t")
    return ("\n".join(joined.to_pylist()) + "\n").encode()

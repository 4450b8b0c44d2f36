"""How often the text of a corpus is read: once to score it, once to write the store, and not at all to count it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from corpora.stores import OPTIONS, feeds, write
from isogloss.config import EvaluationSettings
from isogloss.corpora.preparation.pair_selection import ScoredPart
from isogloss.corpora.prepare import prepare_store
from isogloss.corpora.store import Store
from isogloss.runs.gathering import language_subset
from isogloss.runs.measure import measured_pairs, pair_counts
from isogloss.types import PairCounts


def test_preparing_reads_scored_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()
    batches = ScoredPart.batches

    def counted(part: ScoredPart, columns: Sequence[str]) -> Iterator[tuple[slice, pa.Table]]:
        reads.update({"source", "target"} & set(columns))
        return batches(part, columns)

    monkeypatch.setattr(ScoredPart, "batches", counted)
    prepare_store(feeds(write(tmp_path / "en-de.tsv", 100)), tmp_path / "store", OPTIONS)
    assert reads == {"source": 1, "target": 1}


def test_counts_are_those_of_the_pairs_and_read_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "many.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(50)))
    store = prepare_store(feeds(table, write(tmp_path / "news.en-de.tsv", 30)), tmp_path / "store", OPTIONS)
    known = store.bitext()
    reads = 0
    tables = Store.tables

    def counted(
        store: Store,
        columns: Sequence[str] = ("source", "target", "language", "corpus", "split"),
        files: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        nonlocal reads
        for table in tables(store, columns, files):
            reads += 1
            yield table

    monkeypatch.setattr(Store, "tables", counted)
    counts, german = store.pair_counts(), language_subset(store, ["de"])
    assert {cell: count for cell, count in counts.cells.items() if count} == PairCounts.of(known.table).cells
    assert counts.total() == len(store) == len(known)
    assert counts.total(language="de", split="train") == len(known.where(language="de", split="train"))
    assert counts.of_split()["news", "de"] == len(known.where(corpus="news", split="train"))
    assert (store.languages, german.languages, len(german)) == (("de", "fr"), ("de",), len(known.where(language="de")))
    assert pair_counts(store)["test"] == len(known.where(split="test"))
    assert reads == 0
    few = measured_pairs(german, EvaluationSettings(max_queries=1, max_candidates=1))
    assert len(few) == 2 and reads < len(store.manifest["parts"]), "reading stops when there are enough pairs"

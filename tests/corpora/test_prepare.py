"""Preparing pairs: nothing is lost unseen, sentences stay on one side of the split, the same input gives the same bytes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.prepare import prepare, read_prepared
from isogloss.corpora.readers import read
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair

WORDS = st.sampled_from(["stone", "river", "cloud", "Stein", "Fluss", "Wolke", "...", "stone stone"])


@given(st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["de", "fr"])), min_size=1, max_size=40))
def test_every_row_is_kept_or_counted(rows: list[tuple[str, str, str]]) -> None:
    bitext = Bitext.of(Pair(source, target, language, "", "") for source, target, language in [*rows, ("sun", "Sonne", "de")])
    prepared = prepare(bitext, held_out=0.3)
    assert prepared.rows_in == len(prepared.bitext) + sum(drop.count for drop in prepared.drops)
    assert all(len(drop.examples) == min(3, drop.count) for drop in prepared.drops)


@given(st.floats(0.0, 0.5), st.integers(1, 60))
def test_a_source_sentence_is_wholly_in_one_split(held_out: float, count: int) -> None:
    pairs = [Pair(f"sentence {n}", f"{code} {n}", code, "", "") for n in range(count) for code in ("de", "fr")]
    bitext = prepare(Bitext.of(pairs), held_out=held_out).bitext
    train, test = set(bitext.where(split="train").sources()), set(bitext.where(split="test").sources())
    assert not train & test
    assert len(train | test) == count


def test_adding_pairs_moves_no_row_to_the_other_split() -> None:
    pairs = [Pair(f"sentence {n}", f"Satz {n}", "de", "", "") for n in range(200)]
    few, many = (prepare(Bitext.of(some), held_out=0.2).bitext for some in (pairs[:100], pairs))
    before = {pair.source: pair.split for pair in few}
    assert all(before[pair.source] == pair.split for pair in many if pair.source in before)
    assert 20 < len(many.where(split="test")) < 60


def test_text_of_the_test_split_is_never_trained_on() -> None:
    pairs = [
        Pair("It rains.", "Es regnet.", "de", "", "test"),
        Pair("it RAINS.", "Il pleut.", "fr", "", "train"),
        Pair("Rain falls.", "Es regnet.", "de", "", "train"),
        Pair("The sun shines.", "Die Sonne scheint.", "de", "", "train"),
    ]
    prepared = prepare(Bitext.of(pairs))
    assert prepared.bitext.where(split="train").column("source") == ["The sun shines."]
    assert {drop.rule: drop.count for drop in prepared.drops}["in the test split"] == 2


def test_a_duplicate_is_dropped_from_training_not_from_the_test_split() -> None:
    pairs = [Pair("It rains.", "Es regnet.", "de", "a", "train"), Pair("It rains.", "Es regnet.", "de", "b", "test")]
    kept = prepare(Bitext.of([*pairs, Pair("Sun.", "Sonne.", "de", "a", "train")])).bitext
    assert [(pair.source, pair.split) for pair in kept] == [("It rains.", "test"), ("Sun.", "train")]


def test_source_text_is_not_dropped_for_being_its_own_translation() -> None:
    pairs = [
        Pair("A stone.", "A stone.", "en", "", "train"),
        Pair("Hotel", "Hotel", "de", "", "train"),
        Pair("Sun.", "Sonne.", "de", "", "train"),
    ]
    assert prepare(Bitext.of(pairs)).bitext.column("source") == ["A stone.", "Sun."]


def test_nothing_left_says_which_rule(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no pairs are left of 1") as caught:
        prepare(Bitext.of([Pair("same", "same", "de")]))
    assert "identical sides" in caught.value.hint


def test_written_file_is_the_same_bytes_and_reads_back(tsv: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    prepared = [prepare(read(tsv), out=path) for path in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    again = read(paths[0])
    assert list(again) == list(prepared[0].bitext)
    assert again.source_language == "en"


def test_manifest_counts(tsv: Path) -> None:
    manifest = prepare(read(tsv)).manifest()
    assert manifest["rows_in"] == manifest["rows_out"] == 80
    assert manifest["languages"]["de"] == {"train": 32, "test": 8}


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match="no column source"):
        read_prepared(tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read(tmp_path / "broken.parquet")

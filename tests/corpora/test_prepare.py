"""PrepareOptions as a whole: counts add up, nothing is invented, order and repetition do not matter, what cannot be is said."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.stores import OPTIONS, feeds, prepared, write
from isogloss.config import CleaningSettings
from isogloss.corpora.prepare import prepare, prepare_store, remove_scores
from isogloss.corpora.store import open_store
from isogloss.corpora.text.normalize import normalize
from isogloss.errors import DataError, IsoglossError
from isogloss.types import Bitext, Pair

WORD = st.sampled_from(["cat", "dog", "runs", "Home", "7", "ж", "猫", "", "!", "the"])
SENTENCE = st.lists(WORD, max_size=6).map(" ".join)
ROWS = st.lists(
    st.builds(
        Pair,
        SENTENCE,
        SENTENCE,
        st.sampled_from(["de", "ru"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "train", "test"]),
    ),
    min_size=1,
    max_size=25,
)


def key(pair: Pair) -> tuple[str, ...]:
    letters = ("".join(filter(str.isalnum, side.lower())) for side in (pair.source, pair.target))
    return (*letters, pair.language)


@settings(max_examples=25, deadline=None)
@given(rows=ROWS)
def test_counts_add_up_and_nothing_is_invented(rows: list[Pair]) -> None:
    try:
        result = prepare(Bitext.of(rows))
    except DataError:  # nothing is left: see test_bad_places_and_languages_are_said
        return
    manifest = result.manifest
    assert manifest["rows_in"] == len(rows)
    assert manifest["rows_out"] == len(result.bitext)
    assert manifest["rows_in"] - sum(drop["count"] for drop in manifest["dropped"]) == manifest["rows_out"]
    for line in manifest["waterfall"]:
        assert line["rows_in"] == sum(line["dropped"].values()) + line["train"] + line["test"]
        assert line["rows_in"] == sum((row.corpus, row.language) == (line["corpus"], line["language"]) for row in rows)
    given_rows = {(normalize(row.source), normalize(row.target), row.language, row.corpus) for row in rows}
    assert {pair[:4] for pair in result.bitext} <= given_rows


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 99))
def test_order_does_not_matter_and_twice_is_once(rows: list[Pair], seed: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    try:
        once = prepared(rows)
    except DataError:
        with pytest.raises(DataError):
            prepared(shuffled)
        return
    assert sorted((*key(pair), pair.split) for pair in prepared(shuffled)) == sorted((*key(pair), pair.split) for pair in once)
    assert sorted(prepared(once)) == sorted(once)


@settings(max_examples=20, deadline=None)
@given(rows=ROWS)
def test_no_training_text_is_test_text_and_a_source_has_one_split(rows: list[Pair]) -> None:
    try:
        kept = prepared(rows)
    except DataError:
        return
    held = {side for pair in kept if pair.split == "test" for side in key(pair)[:2]}
    learnt = {side for pair in kept if pair.split == "train" for side in key(pair)[:2]}
    assert not held & learnt


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write(tmp_path / "news.en-de.tsv", 300)
    for name in ("one", "two"):
        prepare_store(feeds(source), tmp_path / name, OPTIONS)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()} for name in ("one", "two")
    )
    assert one == two
    assert str(tmp_path) not in (tmp_path / "one" / "manifest.json").read_text()


def test_other_processes_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.prepare.MIN_BYTES", 0)
    source = write(tmp_path / "news.en-de.tsv", 3000)
    alone = prepare_store(feeds(source), tmp_path / "one", OPTIONS)
    together = prepare_store(feeds(source), tmp_path / "two", replace(OPTIONS, workers=2))
    assert alone.manifest == together.manifest


def test_thresholds_set_from_the_data_say_why(tmp_path: Path) -> None:
    rows = [Pair(f"a sentence about the number {n}", f"ein Satz über die Zahl {n}", "de", "c", "") for n in range(990)]
    rows += [Pair(f"short {n}", f"ein Satz der sehr viel länger ist als der andere {n}", "de", "c", "") for n in range(10)]
    result = prepare(Bitext.of(rows), CleaningSettings(auto=True, min_language=0))
    (chosen,) = [one for one in result.manifest["thresholds"] if one["rule"] == "length ratio"]
    assert chosen["value"] < 3 and "ordinary spread ends" in chosen["reason"]
    assert {drop["rule"]: drop["count"] for drop in result.manifest["dropped"]}["length ratio"] == 10


def test_a_sample_of_the_scores_is_taken_evenly_over_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.preparation.auto_thresholds.SAMPLE", 10)
    monkeypatch.setattr("isogloss.corpora.preparation.scored_parts.ROWS_PER_GROUP", 7)
    how = replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(auto=True))
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 100)), tmp_path / "store", how)
    assert {one["reason"] for one in store.manifest["thresholds"]} == {"setting kept: only 10 pairs to learn from"}


def test_leftovers_of_a_killed_preparation_are_swept(tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.en-de.tsv", 5), tmp_path / "store"
    prepare_store(feeds(source), out, OPTIONS)
    leftovers = [out / folder / ".x.parquet.partial-0123abcd" for folder in ("", "scored", "pairs", "dropped")]
    for path in leftovers:
        path.write_text("half")
    prepare_store(feeds(source), out, OPTIONS)
    assert not any(path.exists() for path in leftovers)


def test_names_are_prepared_as_the_verb_does_it(tmp_path: Path) -> None:
    scored = "".join(f"{score}\tsentence number {n}\tSatz Nummer {n}\n" for n, score in enumerate((1.01, 1.2, 1.3)))
    (tmp_path / "WikiMatrix.v1.en-de.tsv").write_text("score\ten\tde\n" + scored)
    result = prepare(tmp_path / "WikiMatrix.v1.en-de.tsv", CleaningSettings(min_language=0))
    assert result.manifest["rows_out"] == 2
    entries = Bitext.of(
        [Pair("Berlin", "Berlin", "de", "dict_towns", "train"), Pair("a cat", "eine Katze", "de", "x", "train")]
    )
    assert len(prepare(entries).bitext) == 2


def test_bad_places_and_languages_are_said(tmp_path: Path) -> None:
    source = feeds(write(tmp_path / "a.en-de.tsv", 5))
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file, but a store is a folder"):
        prepare_store(source, tmp_path / "file", OPTIONS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("x")
    with pytest.raises(DataError, match="has other files in it"):
        prepare_store(source, tmp_path / "full", OPTIONS)
    with pytest.raises(DataError, match="no pairs for fr; there are pairs for de"):
        prepare_store(source, tmp_path / "new", replace(OPTIONS, languages=("fr",)))
    with pytest.raises(DataError, match="different source languages: de, en"):
        prepare_store([*source, replace(source[0], source_language="de")], tmp_path / "new", OPTIONS)
    with pytest.raises(DataError, match="5 pairs read, none kept"):
        prepare_store(source, tmp_path / "new", replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(max_characters=1)))


def test_two_at_once_do_not_share_a_store(tmp_path: Path) -> None:
    out = tmp_path / "store"
    prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS)
    with FileLock(out / ".lock"), pytest.raises(IsoglossError, match="another isogloss is writing"):
        prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, OPTIONS)


def test_a_failed_preparation_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 50)), out, OPTIONS)
    (tmp_path / "b.en-de.tsv").write_text("only one column\n")
    with pytest.raises(DataError, match="1 column"):
        prepare_store(feeds(tmp_path / "a.en-de.tsv", tmp_path / "b.en-de.tsv"), out, OPTIONS)
    assert open_store(out).manifest == store.manifest
    assert len(open_store(out).bitext()) == len(store)


def test_only_files_of_our_own_ever_go(tmp_path: Path) -> None:
    out = tmp_path / "store"
    (out / "scored").mkdir(parents=True)
    (out / "scored" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="has other files in it"):
        prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS)
    (out / "scored" / "thesis.txt").unlink()
    (out / "scored").rmdir()
    prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, OPTIONS)
    for name in ("scored/thesis.txt", "pairs/mine.parquet", "dropped/mine.parquet"):
        (out / name).write_text("years of work")
    prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, OPTIONS)
    remove_scores(out)
    assert [path.name for path in (out / "scored").iterdir()] == ["thesis.txt"]
    assert (out / "pairs" / "mine.parquet").exists() and (out / "dropped" / "mine.parquet").exists()


def test_a_split_that_is_not_known_is_refused() -> None:
    with pytest.raises(DataError, match="a split is 'dev'"):
        prepare(Bitext.of([Pair("a", "b", "de", "c", "dev")]))

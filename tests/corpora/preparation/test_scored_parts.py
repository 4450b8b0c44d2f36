"""Scores on disk: made once, found again, never mistaken for those of other text, rules or models; only what is new is read."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import Table

from corpora.stores import OPTIONS, feeds, stamps, write
from isogloss.corpora.prepare import prepare_store
from isogloss.corpora.store import is_store, open_store
from isogloss.errors import DataError


def test_adding_a_corpus_touches_only_what_is_new(tmp_path: Path) -> None:
    first, out = write(tmp_path / "news.en-de.tsv", 300), tmp_path / "store"
    prepare_store(feeds(first), out, OPTIONS)
    before = stamps(out / "pairs") | {f"s/{name}": stamp for name, stamp in stamps(out / "scored").items()}
    (tmp_path / "talks.en-fr.tsv").write_text("good morning to you\tbonjour à vous\n" * 3)
    store = prepare_store(feeds(first, tmp_path / "talks.en-fr.tsv"), out, OPTIONS)
    after = stamps(out / "pairs") | {f"s/{name}": stamp for name, stamp in stamps(out / "scored").items()}
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    assert store.manifest["corpora"]["talks"]["train"] + store.manifest["corpora"]["talks"]["test"] == 1


def test_adding_a_language_of_a_many_way_file_reads_only_that_language(tmp_path: Path) -> None:
    table = tmp_path / "many.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(50)))
    out = tmp_path / "store"
    prepare_store(feeds(table), out, replace(OPTIONS, languages=("de",)))
    before = stamps(out / "scored")
    store = prepare_store(feeds(table), out, replace(OPTIONS, languages=("de", "fr")))
    assert store.languages == ("de", "fr")
    assert before.items() <= stamps(out / "scored").items()
    assert len(before) == 1 and len(stamps(out / "scored")) == 2
    assert prepare_store(feeds(table), out, replace(OPTIONS, languages=("fr",))).languages == ("fr",)


def test_a_threshold_moves_without_scoring_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "news.en-de.tsv", 100), tmp_path / "store"
    prepare_store(feeds(source), out, OPTIONS)
    before = stamps(out / "scored")
    stricter = replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(max_characters=25))
    store = prepare_store(feeds(source), out, stricter)
    assert stamps(out / "scored") == before
    dropped = {drop["rule"]: drop["count"] for drop in store.manifest["dropped"]}
    assert dropped["too long"] == 90  # "sentence number 10 is here" has 26 characters
    assert len(list((out / "pairs").glob("*.parquet"))) == 1


def test_a_rule_is_turned_off_and_on_without_scoring_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "a.en-de.tsv", 20), tmp_path / "store"
    first = prepare_store(feeds(source), out, OPTIONS)
    before = stamps(out / "scored")
    off = replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(min_numbers=0, max_tokens=0))
    prepare_store(feeds(source), out, off)
    assert prepare_store(feeds(source), out, OPTIONS).manifest == first.manifest
    assert stamps(out / "scored") == before
    prepare_store(feeds(source), out, replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(min_language=0.2)))  # never scored yet
    assert stamps(out / "scored") != before


def test_an_interrupted_preparation_goes_on_from_what_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, out = [write(tmp_path / "a.en-de.tsv", 50), write(tmp_path / "b.en-de.tsv", 50, start=50)], tmp_path / "store"
    broken = feeds(*files)
    broken[1] = replace(broken[1], blocks=lambda faults: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        prepare_store(broken, out, OPTIONS)
    assert not is_store(out)
    before = stamps(out / "scored")
    assert len(before) == 1
    store = prepare_store(feeds(*files), out, OPTIONS)
    assert len(store) == 100 - sum(drop["count"] for drop in store.manifest["dropped"])
    assert before.items() <= stamps(out / "scored").items()


def test_parts_do_not_depend_on_what_was_prepared_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isogloss.corpora.preparation.scored_parts.ROWS_PER_GROUP", 7)
    table = tmp_path / "many.tsv"
    table.write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(50)))
    whole = prepare_store(feeds(table), tmp_path / "one", OPTIONS)
    prepare_store(feeds(table), tmp_path / "two", replace(OPTIONS, languages=("de",)))
    assert prepare_store(feeds(table), tmp_path / "two", OPTIONS).hash == whole.hash


def test_the_policy_holds_for_what_was_read_before(tmp_path: Path) -> None:
    source, out = tmp_path / "en-de.tsv", tmp_path / "store"
    source.write_text("one cat\teine Katze\nalone\nlonely\ntwo dogs\tzwei Hunde\n")
    assert prepare_store(feeds(source), out, replace(OPTIONS, on_error="skip")).manifest["skipped_lines"] == 2
    with pytest.raises(DataError, match=r"en-de.tsv line 2: 1 column.*1 more bad line"):
        prepare_store(feeds(source), out, OPTIONS)
    with pytest.raises(DataError, match="line 2: 1 column"):
        prepare_store(feeds(source), out, replace(OPTIONS, on_error="stop-after 1"))
    assert len(prepare_store(feeds(source), out, replace(OPTIONS, on_error="stop-after 2"))) == 2
    assert str(tmp_path) not in (out / "manifest.json").read_text()


def test_damaged_and_missing_parts_are_made_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "news.en-de.tsv", 50), tmp_path / "store"
    before = prepare_store(feeds(source), out, OPTIONS)
    for folder, damage in (("scored", b""), ("scored", None), ("pairs", b"PAR1"), ("dropped", None)):
        (part,) = (out / folder).glob("*.parquet")
        part.unlink() if damage is None else part.write_bytes(damage)
        again = prepare_store(feeds(source), out, OPTIONS)
        assert again.manifest == before.manifest and len(again.bitext()) == len(before)


def test_damage_inside_a_part_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, out = write(tmp_path / "a.en-de.tsv", 500), tmp_path / "store"
    first = prepare_store(feeds(source), out, OPTIONS)
    for folder in ("pairs", "scored"):
        (part,) = (out / folder).glob("*.parquet")
        data = bytearray(part.read_bytes())
        footer = int.from_bytes(data[-8:-4], "little")
        middle = (len(data) - footer) // 2
        data[middle : middle + 40] = bytes(40) if folder == "pairs" else bytes(byte ^ 1 for byte in data[middle : middle + 40])
        part.write_bytes(data)
        caplog.clear()
        assert prepare_store(feeds(source), out, OPTIONS).manifest == first.manifest
        assert len(open_store(out).bitext()) == len(first)
        assert ("kept scores are damaged; a is scored again" in caplog.text) == (folder == "scored")


def test_a_language_that_a_file_has_not_is_looked_for_once(tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text("en\tde\n" + "".join(f"number {n} one\tNummer {n}\n" for n in range(20)))
    both = feeds(tmp_path / "many.tsv", write(tmp_path / "a.en-fr.tsv", 5))
    wanted = replace(OPTIONS, languages=("de", "fr"))
    first = prepare_store(both, tmp_path / "store", wanted)

    def unread(faults: object) -> Iterator[Table]:
        raise AssertionError("it was read before")

    again = prepare_store([replace(feed, blocks=unread) for feed in both], tmp_path / "store", wanted)
    assert again.manifest == first.manifest


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "[]", '{"rows": {"../../x": 3}}', '{"rows": {"de": "3"}}', '{"rows": [1]}', '{"x": 1}']
)
def test_an_index_that_is_none_is_made_again(tmp_path: Path, text: str) -> None:
    first = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 20)), tmp_path / "store", OPTIONS)
    (index,) = (tmp_path / "store" / "scored").glob("*.json")
    good = index.read_text()
    index.write_text(text)
    assert prepare_store(feeds(tmp_path / "a.en-de.tsv"), tmp_path / "store", OPTIONS).hash == first.hash
    assert json.loads(index.read_text()) == json.loads(good)

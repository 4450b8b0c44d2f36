"""A store that is read: broken ones are explained, and one can be prepared again with others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from corpora.stores import HOW, feeds, write
from isogloss.config import LeakSettings
from isogloss.corpora.feeds import from_bitext, from_store
from isogloss.corpora.prepare import Preparation, prepare_store
from isogloss.corpora.store import leaks_in_words, open_store, scan_in_words, scan_of
from isogloss.errors import DataError
from isogloss.types import Bitext
from tiny import PAIRS


def test_stores_can_be_prepared_again_with_others(tmp_path: Path) -> None:
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 50)), tmp_path / "one", HOW)
    again = prepare_store([*from_store(store), *from_bitext(Bitext.of(PAIRS))], tmp_path / "two", HOW)
    assert set(again.manifest["corpora"]) == {"a", PAIRS[0].corpus}
    assert sorted(again.bitext().where(corpus="a")) == sorted(store.bitext())


def test_broken_stores_are_explained(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, HOW)
    (out / "pairs" / store.manifest["parts"][0]["file"]).write_bytes(b"gone")
    with pytest.raises(DataError, match="this part of the store is damaged"):
        open_store(out).bitext()
    with pytest.raises(DataError, match="not a prepared store"):
        open_store(tmp_path)
    (out / "manifest.json").write_text(json.dumps(store.manifest | {"isogloss_store": 99}))
    with pytest.raises(DataError, match="another version of isogloss"):
        open_store(out)
    (out / "manifest.json").write_text('{"isogloss_store": 1, "hash": "x"}')
    with pytest.raises(DataError, match="is not that of a store: it has no source_language"):
        open_store(out)


def test_a_merged_store_repeats_what_all_its_inputs_were_scanned_for(tmp_path: Path) -> None:
    for name, text in (("both.txt", "Sentence number 7 is here!\n"), ("one.txt", "Sentence number 60 is here!\n")):
        (tmp_path / name).write_text(text)

    def scanned(level: str, *sets: str) -> Preparation:
        against = tuple(str(tmp_path / name) for name in sets)
        return replace(HOW, leaks=LeakSettings(against=against, level=level), held_out=0.0)

    first = prepare_store(
        feeds(write(tmp_path / "a.en-de.tsv", 50)), tmp_path / "a", scanned("normalised", "both.txt", "one.txt")
    )
    second = prepare_store(feeds(write(tmp_path / "b.en-de.tsv", 50, 50)), tmp_path / "b", scanned("near", "both.txt"))
    assert len(first) == 49 and len(second) == 50
    merged = prepare_store([*from_store(first), *from_store(second)], tmp_path / "ab", HOW)
    (kept,) = merged.manifest["leak_scan"]["sets"]
    assert kept == first.manifest["leak_scan"]["sets"][0] | {"level": "normalised", "before": True}
    assert scan_of(merged.manifest)["sets"] == ["both.txt"]
    again = prepare_store([*from_store(merged), *from_store(second)], tmp_path / "abb", scanned("near", "one.txt"))
    assert [(one["name"], one["level"], one["before"]) for one in again.manifest["leak_scan"]["sets"]] == [
        ("one.txt", "near", False),
        ("both.txt", "normalised", True),
    ]
    assert sum(again.manifest["leak_scan"]["removed"].values()) == 2, "number 60, of either store"
    mixed = prepare_store([*from_store(merged), *feeds(tmp_path / "a.en-de.tsv")], tmp_path / "mixed", HOW)
    assert mixed.manifest["leak_scan"]["sets"] == [], "nobody looked into the file"


def test_what_was_scanned_is_said_in_few_words() -> None:
    sets = [{"name": name, "texts": texts} for name, texts in (("a", 1), ("b", 0), ("c", 2), ("a", 1), ("d", 1), ("e", 1))]
    scan = scan_of({"leak_scan": {"level": "near", "sets": sets, "removed": {"exact": 1, "near": 0}}})
    assert scan == {"level": "near", "sets": ["a", "c", "d", "e"], "removed": 1}
    assert scan_in_words(scan) == "scanned for a, c, d, 1 more set, its held-out rows: 1 pair of evaluation sets left out"
    assert scan_in_words(scan | {"sets": []}) == "scanned for its held-out rows"
    assert leaks_in_words(scan) == "1 pair of the checked test sets left out of training (a, c, d, 1 more set, held-out rows)."
    none = leaks_in_words({"sets": ["a"], "removed": 0})
    assert none == "No training pair appears in the checked test sets (a, held-out rows)."

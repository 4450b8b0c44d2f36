"""A store that is read: broken ones are explained, and one can be prepared again with others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.stores import OPTIONS, feeds, write
from isogloss.config import LeakSettings
from isogloss.corpora.preparation.feeds import from_bitext, from_store
from isogloss.corpora.prepare import PrepareOptions, prepare_store
from isogloss.corpora.store import leak_scan_of, leaks_in_words, open_store
from isogloss.errors import DataError
from isogloss.storage import file_hash, write_json
from isogloss.types import Bitext
from tiny import PAIRS


def test_stores_can_be_prepared_again_with_others(tmp_path: Path) -> None:
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 50)), tmp_path / "one", OPTIONS)
    again = prepare_store([*from_store(store), *from_bitext(Bitext.of(PAIRS))], tmp_path / "two", OPTIONS)
    assert set(again.manifest["corpora"]) == {"a", PAIRS[0].corpus}
    assert sorted(again.bitext().where(corpus="a")) == sorted(store.bitext())


def test_broken_stores_are_explained(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS)
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

    def scanned(level: Literal["exact", "normalized", "near", "off"], *sets: str) -> PrepareOptions:
        against = tuple(str(tmp_path / name) for name in sets)
        return replace(OPTIONS, leaks=LeakSettings(against=against, level=level), held_out=0.0)

    first = prepare_store(
        feeds(write(tmp_path / "a.en-de.tsv", 50)), tmp_path / "a", scanned("normalized", "both.txt", "one.txt")
    )
    second = prepare_store(feeds(write(tmp_path / "b.en-de.tsv", 50, 50)), tmp_path / "b", scanned("near", "both.txt"))
    assert len(first) == 49 and len(second) == 50
    merged = prepare_store([*from_store(first), *from_store(second)], tmp_path / "ab", OPTIONS)
    (kept,) = merged.manifest["leak_scan"]["sets"]
    assert kept == first.manifest["leak_scan"]["sets"][0] | {"level": "normalized", "before": True}
    assert leak_scan_of(merged.manifest)["sets"] == ["both.txt"]
    again = prepare_store([*from_store(merged), *from_store(second)], tmp_path / "abb", scanned("near", "one.txt"))
    assert [(one["name"], one["level"], one["before"]) for one in again.manifest["leak_scan"]["sets"]] == [
        ("one.txt", "near", False),
        ("both.txt", "normalized", True),
    ]
    assert sum(again.manifest["leak_scan"]["removed"].values()) == 2, "number 60, of either store"
    mixed = prepare_store([*from_store(merged), *feeds(tmp_path / "a.en-de.tsv")], tmp_path / "mixed", OPTIONS)
    assert mixed.manifest["leak_scan"]["sets"] == [], "nobody looked into the file"


def test_what_was_scanned_is_said_in_few_words() -> None:
    sets = [{"name": name, "texts": texts} for name, texts in (("a", 1), ("b", 0), ("c", 2), ("a", 1), ("d", 1), ("e", 1))]
    scan = leak_scan_of({"leak_scan": {"level": "near", "sets": sets, "removed": {"exact": 1, "near": 0}}})
    assert scan == {"level": "near", "sets": ["a", "c", "d", "e"], "removed": 1}
    assert (
        leaks_in_words(scan)
        == "1 pair of the checked test sets was removed from training (a, c, d, 1 more set, held-out rows)."
    )
    none = leaks_in_words({"sets": ["a"], "removed": 0})
    assert none == "No training pair appears in the checked test sets (a, held-out rows)."


def _in_part(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["parts"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_in_part(file="../../secret.parquet"), r"parts\[0\]\.file is not the name of a file"),
        (_in_part(file="/etc/passwd"), r"parts\[0\]\.file is not"),
        (_in_part(file="a\\..\\b"), r"parts\[0\]\.file is not"),
        (_in_part(rows="5"), r"parts\[0\]\.rows is not a count"),
        (_in_part(rows=4), "different numbers of rows"),
        (_in_part(sha256=None), r"parts\[0\]\.sha256 is not"),
        (_in_part(corpus="b"), "belongs to no listed corpus"),
        (lambda manifest: manifest["parts"].append(3), r"parts\[1\] is not an object"),
        (lambda manifest: manifest.update(languages=["de"]), "languages is not an object"),
        (lambda manifest: manifest["languages"].update({"../x": manifest["languages"]["de"]}), "is not a language"),
        (
            lambda manifest: manifest["languages"].update(fr=manifest["languages"]["de"]),
            "languages and waterfall name different",
        ),
        (lambda manifest: manifest["leak_scan"].update(level="strong"), "leak_scan.level is not one of"),
        (lambda manifest: manifest["waterfall"][0].update(train=99), r"waterfall\[0\] does not add up"),
        (lambda manifest: manifest["waterfall"][0].update(more=1), "'more' is not known"),
        (lambda manifest: manifest["corpora"].clear(), "name different ones"),
        (
            lambda manifest: manifest["dropped"].append({"rule": "x", "count": 1, "examples": []}),
            "dropped and waterfall differ",
        ),
        (lambda manifest: manifest.pop("thresholds"), "it has no thresholds"),
        (lambda manifest: manifest.update(rows_in=float("nan")), "rows_in is not a count"),
    ],
)
def test_a_foreign_manifest_is_not_believed(tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str) -> None:
    out = tmp_path / "store"
    manifest = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS).manifest
    change(manifest)
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=said) as caught:
        open_store(out)
    assert caught.value.hint == "run the same isogloss prepare again"
    assert len(prepare_store(feeds(tmp_path / "a.en-de.tsv"), out, OPTIONS)) == 5, "and that helps"


def test_parts_do_not_lead_out_of_a_store(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS)
    part = out / "pairs" / store.manifest["parts"][0]["file"]
    part.rename(tmp_path / "elsewhere.parquet")
    part.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(DataError, match="is outside of the store"):
        open_store(out)
    part.unlink()
    (tmp_path / "elsewhere.parquet").rename(part)
    (out / "pairs").rename(tmp_path / "other-disk")
    (out / "pairs").symlink_to(tmp_path / "other-disk")  # of one's own: the whole folder on another disk
    assert len(open_store(out).bitext()) == 5


def test_a_part_with_other_columns_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "store"
    store = prepare_store(feeds(write(tmp_path / "a.en-de.tsv", 5)), out, OPTIONS)
    part = out / "pairs" / store.manifest["parts"][0]["file"]
    pq.write_table(pa.table({"source": ["a"], "target": [1]}), part)
    _in_part(sha256=file_hash(part))(store.manifest)
    write_json(out / "manifest.json", store.manifest)
    with pytest.raises(DataError, match="not a part of a store"):
        open_store(out).bitext()


@pytest.mark.parametrize("text", ["[" * 50_000, '{"isogloss_store": ' + "9" * 5000 + "}", '"isogloss_store"', "", "\ud800"])
def test_no_manifest_at_all(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(DataError, match="not a prepared store"):
        open_store(tmp_path)

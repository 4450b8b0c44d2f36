"""The account of a preparation: reasons, evaluation sets, and JSON that any reader reads."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.stores import OPTIONS, feeds, write
from isogloss.config import LeakSettings
from isogloss.corpora.preparation.manifest import Line, grouped, total
from isogloss.corpora.prepare import prepare_store
from isogloss.corpora.store import unread
from isogloss.errors import DataError


def test_every_dropped_pair_keeps_its_reason(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n!!\t??\nsame\tsame\none cat\teine Katze\nin 1999\tim Jahr 2024\n")
    store = prepare_store(feeds(source), tmp_path / "store", replace(OPTIONS, held_out=0.0))
    rows = pq.read_table(tmp_path / "store" / "dropped").to_pylist()
    assert [(row["line"], row["reason"]) for row in rows] == [
        (2, "empty side"),
        (3, "identical sides"),
        (4, "duplicate"),
        (5, "different numbers"),
    ]
    assert len(store) == 1
    examples = {drop["rule"]: drop["examples"] for drop in store.manifest["dropped"] if drop["count"]}
    assert examples["different numbers"][0]["score"] == 0.0


def test_evaluation_text_is_removed_from_training_and_reported(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("Sentence number 7 is here!\n")
    source = write(tmp_path / "en-de.tsv", 20)
    guarded = replace(OPTIONS, leaks=LeakSettings(against=(str(tmp_path / "test.txt"),)), held_out=0.0)
    store = prepare_store(feeds(source), tmp_path / "store", guarded)
    scan = store.manifest["leak_scan"]
    assert scan["sets"][0]["name"] == "test.txt" and scan["sets"][0]["texts"] == 1
    assert sum(scan["removed"].values()) == 1
    assert "sentence number 7 is here" not in store.bitext().column("source")


def test_held_out_pairs_may_be_evaluation_text(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("Sentence number 1 is here!\nSentence number 2 is here!\n")
    (tmp_path / "a.tsv").write_text(
        "en\tde\tsplit\n"
        + "".join(
            f"sentence number {n} is here\tSatz Nummer {n}\t{split}\n" for n, split in enumerate(["train", "train", "test"])
        )
    )
    guarded = replace(OPTIONS, leaks=LeakSettings(against=(str(tmp_path / "test.txt"),)))
    kept = prepare_store(feeds(tmp_path / "a.tsv"), tmp_path / "store", guarded).bitext()
    assert [(pair.target, pair.split) for pair in kept] == [("Satz Nummer 0", "train"), ("Satz Nummer 2", "test")]


def test_the_manifest_is_strict_json(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n" + "x" * 1_200_000 + "\tein Riese\n")
    prepare_store(feeds(source), tmp_path / "store", replace(OPTIONS, held_out=0.0))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads((tmp_path / "store" / "manifest.json").read_text(), parse_constant=refuse)


def test_entries_that_are_no_pairs_are_counted_once_and_kept(tmp_path: Path) -> None:
    entries = 'msgid "one cat"\nmsgstr "eine Katze"\n\n#, fuzzy\nmsgid "two"\nmsgstr "zwei"\n\nmsgid "three"\nmsgstr ""\n'
    for name in ("app.de.po", "more.fr.po"):
        (tmp_path / name).write_text(entries)
    for _ in range(2):  # the second time the scores are found, and nothing is read
        manifest = prepare_store(feeds(tmp_path / "app.de.po", tmp_path / "more.fr.po"), tmp_path / "store", OPTIONS).manifest
        assert manifest["passed_over"] == {"fuzzy": 2, "untranslated": 2} and manifest["rows_in"] == 2
        assert [source["passed_over"] for source in manifest["sources"]] == [{"fuzzy": 1, "untranslated": 1}] * 2
    assert unread(manifest) == "4 entries skipped: 2 fuzzy, 2 untranslated"
    (tmp_path / "none.de.po").write_text('msgid "three"\nmsgstr ""\n')
    with pytest.raises(DataError, match="no pairs") as caught:
        prepare_store(feeds(tmp_path / "none.de.po"), tmp_path / "none", OPTIONS)
    assert caught.value.hint == "1 entry skipped: 1 untranslated"


LINES = st.lists(
    st.builds(
        Line,
        st.sampled_from("ab"),
        st.sampled_from(["de", "fr"]),
        st.integers(0, 9),
        st.dictionaries(st.sampled_from(["x", "y"]), st.integers(1, 9)),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(lines=LINES)
def test_groups_add_up(lines: list[Line]) -> None:
    assert [line.corpus for line in grouped(lines, "corpus")] == sorted({line.corpus for line in lines})
    for group in grouped(lines, "corpus", "language"):
        own = [line for line in lines if (line.corpus, line.language) == (group.corpus, group.language)]
        assert (group.rows_in, group.pairs) == (sum(line.rows_in for line in own), sum(line.train + line.test for line in own))
        for rule in ("x", "y"):
            assert group.dropped.get(rule, 0) == sum(line.dropped.get(rule, 0) for line in own)
    for name in ("corpus", "language"):
        assert total(grouped(lines, name)) == total(lines)


def test_the_rule_that_took_most() -> None:
    assert Line("a", "de", 9, {"x": 2, "y": 3000, "z": 1}, 0, 0).worst == "y (3,000)"
    assert Line("a", "de", 9, {}, 9, 0).worst == ""

"""What is prepared is known by its content: where it lies and what it is called do not matter."""

from dataclasses import replace
from pathlib import Path

import pytest

from corpora.stores import feeds, write
from isogloss.corpora.preparation.feeds import from_bitext, from_source
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair


def test_a_key_is_made_of_content_and_of_how_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    here, there = write(tmp_path / "a.en-de.tsv", 5), write(tmp_path / "deep" / "a.en-de.tsv", 5)
    (one,), (same,) = feeds(here), feeds(there)
    assert one.key == same.key
    (other,) = feeds(write(tmp_path / "a.en-fr.tsv", 5))
    (longer,) = feeds(write(there, 6))
    assert len({one.key, other.key, longer.key}) == 3


def test_a_copy_of_standard_input_is_called_that(tmp_path: Path) -> None:
    (source,) = find_sources("-", "de")
    with pytest.raises(DataError, match="standard input must be written to a file"):
        from_source(source)
    copies = []
    for name in ("one", "two"):
        (tmp_path / name).write_text("a cat\teine Katze\nalone\n")
        copies.append(replace(source, path=tmp_path / name))
    assert from_source(copies[0]).key == from_source(copies[1]).key
    with pytest.raises(DataError, match=r"^standard input line 2: 1 column"):
        list(stream(copies[0], Faults()))
    (tmp_path / "one").unlink()
    with pytest.raises(DataError, match=r"^standard input: cannot be read"):
        from_source(copies[0])
    with pytest.raises(DataError, match=r"^standard input: no such file"):
        list(stream(copies[0], Faults()))


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (source,) = find_sources(write(tmp_path / "a.en-de.tsv", 5))
    with pytest.raises(DataError, match="the file name is not UTF-8"):
        from_source(replace(source, path=tmp_path / "a\udcff.tsv"))


def test_a_large_bitext_comes_in_blocks_that_are_numbered_through() -> None:
    (feed,) = from_bitext(Bitext.of([Pair(f"number {n}", f"Nummer {n}", "de", "c", "train") for n in range(40_000)]))
    found = list(feed.blocks(Faults()))
    assert len(found) > 1
    assert [line for block in found for line in block["line"].to_pylist()] == list(range(1, 40_001))
    assert [text for block in found for text in block["source"].to_pylist()] == [f"number {n}" for n in range(40_000)]

"""Word lists: a word and its translation on each line, and nothing else."""

from pathlib import Path

from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import find_sources
from parallel import complaint, put, rows, sides


def test_a_list_is_recognised_and_known_as_a_dictionary(tmp_path: Path) -> None:
    path = put(tmp_path / "muse" / "de-en.0-5000.txt", "Katze cat\nHund dog\n")
    (source,) = find_sources(path)
    assert (source.format, source.dictionary, source.corpus, source.language) == ("muse", True, "muse", "de")
    assert sides(path) == [("cat", "Katze"), ("dog", "Hund")]
    (source,) = find_sources(put(tmp_path / "en-de.txt", "Good day.\tGuten Tag.\n"))
    assert (source.format, source.dictionary) == ("tsv", False)


def test_lines_of_another_length_are_named(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.txt", b"cat Katze\n\nice cream Eis\nalone\n\xff x\ntree Baum\n")
    assert "line 3: 3 words, expected 2" in complaint(path).message
    faults = Faults("skip")
    assert [row["line"] for row in rows(path, faults)] == [1, 6] and faults.count == 3

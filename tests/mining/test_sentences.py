"""What is read of one side, and what is left out and counted."""

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest

from isogloss.config.mining import MiningSettings
from isogloss.corpora.text.normalize import normalize_block
from isogloss.errors import DataError
from isogloss.mining import sentences
from isogloss.mining.sentences import Account, read_sentences, without_shared

LINES = "Hello  there.\n\nHello there.\n   \nGood morning!\r\nGood morning!\nBye."


def test_lines_become_distinct_sentences_that_know_their_line(tmp_path: Path) -> None:
    for name, data in (("x.en", LINES.encode()), ("x.en.gz", gzip.compress(LINES.encode()))):
        (tmp_path / name).write_bytes(data)
        found = read_sentences(tmp_path / name)
        assert found.texts.to_pylist() == ["Hello there.", "Good morning!", "Bye."]
        assert found.ids.to_pylist() == ["1", "5", "7"]
        assert found.account == Account(read=7, empty=2, duplicate=2)
        assert found.account.kept == len(found) == 3
        assert found.same_as == {"3": "1", "6": "5"}
        assert found.texts.to_pylist() == ["Hello there.", "Good morning!", "Bye."]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    found = read_sentences("-")
    assert found.texts.to_pylist() == ["one", "two"] and found.name == "standard input"


def test_ids_before_a_tab(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("en-1\tA\tb.\n\nen-2\tC.\nen-3\tC.\n", encoding="utf-8")
    found = read_sentences(tmp_path / "x", MiningSettings(with_ids=True))
    assert found.texts.to_pylist() == ["A b.", "C."]
    assert found.ids.to_pylist() == ["en-1", "en-2"]
    assert found.same_as == {"en-3": "en-2"}
    (tmp_path / "x").write_text("en-1\tA.\nno id\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: no tab"):
        read_sentences(tmp_path / "x", MiningSettings(with_ids=True))


def test_other_languages_are_left_out_and_counted(tmp_path: Path) -> None:
    german = "Die Regierung hat gestern ein neues Gesetz beschlossen."
    lines = [german, "The government passed a new law yesterday evening.", "Правительство приняло новый закон.", "Ok."]
    (tmp_path / "x").write_text("\n".join(lines), encoding="utf-8")
    found = read_sentences(tmp_path / "x", language="deu")
    assert found.texts.to_pylist() == [german, "Ok."]
    assert found.account.wrong_language == 2 and found.language == "de"
    assert len(read_sentences(tmp_path / "x", MiningSettings(min_language=0), language="de")) == 4


def test_without_a_language_model_the_letters_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("This is a sentence in English.\nПравительство приняло закон.\n", encoding="utf-8")
    monkeypatch.setattr("isogloss.mining.sentences.find_spec", lambda name: None)
    assert read_sentences(tmp_path / "x", language="de").account.wrong_language == 1


def test_text_that_is_alike_on_both_sides_goes(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("www.example.org\nHello.\nBye.\n", encoding="utf-8")
    (tmp_path / "right").write_text("Hallo.\nwww.example.org\n", encoding="utf-8")
    left, right = without_shared(read_sentences(tmp_path / "left"), read_sentences(tmp_path / "right"))
    assert left.texts.to_pylist() == ["Hello.", "Bye."] and right.texts.to_pylist() == ["Hallo."]
    assert left.account == Account(read=3, on_both_sides=1) and right.account.on_both_sides == 1
    assert left.ids.to_pylist() == ["2", "3"]


def test_a_side_of_a_store(tmp_path: Path, tsv: Path) -> None:
    from isogloss.corpora.prepare import prepare
    from isogloss.corpora.reading.readers import read

    prepare(read(tsv), out=tmp_path / "store")
    english = read_sentences(tmp_path / "store", MiningSettings(min_language=0), language="en")
    russian = read_sentences(tmp_path / "store", MiningSettings(min_language=0), language="ru")
    assert "the cat runs home." in english.texts.to_pylist()
    assert "кошка бежит домой." in russian.texts.to_pylist()
    assert english.account.duplicate == len(english) == 40  # of two languages
    assert len(russian) == 40
    with pytest.raises(DataError, match="which side"):
        read_sentences(tmp_path / "store")
    with pytest.raises(DataError, match="which side"):
        read_sentences(tmp_path / "store", language="fr")


def test_documents_are_split(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    (tmp_path / "x").write_text("Dr. Smith came. He left at 3 p.m. on Monday.\n\nYes! No.\n", encoding="utf-8")
    found = read_sentences(tmp_path / "x", MiningSettings(documents=True, min_language=0), language="en")
    assert found.texts.to_pylist() == ["Dr. Smith came.", "He left at 3 p.m. on Monday.", "Yes!", "No."]
    assert found.ids.to_pylist() == ["1.1", "1.2", "3.1", "3.2"]
    (tmp_path / "x").write_text("你好。今天天气怎么样？\n", encoding="utf-8")
    assert len(read_sentences(tmp_path / "x", MiningSettings(documents=True, min_language=0), language="zh")) == 2


def test_without_a_splitter_documents_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (tmp_path / "x").write_text("One. Two.\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(Exception, match="sentencex"):
        read_sentences(tmp_path / "x", MiningSettings(documents=True))


@pytest.mark.parametrize(
    ("content", "language", "message"),
    [(None, "", "no such file"), (b"", "", "no sentences"), (b"a\n\xff\n", "", "line 2: not UTF-8"), (b"a\n", "german!", "no")],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes | None, language: str, message: str) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_sentences(tmp_path / "x", language=language)
    with pytest.raises(DataError, match="not a prepared store"):
        read_sentences(tmp_path)


def test_a_line_that_is_too_long_is_left_out_before_anything_is_done_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of 50 MB took 42 s and 3.9 GB."""
    seen: list[int] = []

    def watched(block: pa.Array) -> pa.Array:
        seen.append(block.nbytes)
        return normalize_block(block)

    monkeypatch.setattr(sentences, "normalize_block", watched)
    (tmp_path / "x.txt").write_text("a cat\n" + "word " * 100_000 + "\na dog\n")
    found = read_sentences(tmp_path / "x.txt")
    assert found.texts.to_pylist() == ["a cat", "a dog"] and found.ids.to_pylist() == ["1", "3"]
    assert found.account == Account(read=3, too_long=1) and found.account.kept == 2
    assert sum(seen) < 1000

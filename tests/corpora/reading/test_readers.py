"""Reading pairs: names become one bitext, and every bad file is named with its line. Formats have tests of their own."""

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from isogloss.corpora import phrasebook
from isogloss.corpora.prepare import prepare
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import joined, read, read_lines, read_source_text, stream
from isogloss.corpora.reading.sources import Source, find_sources
from isogloss.errors import DataError
from isogloss.types import SCHEMA, Bitext, Pair


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_n_way_header_gives_one_pair_a_language_and_keeps_the_split(tsv: Path) -> None:
    bitext = read(tsv)
    assert bitext.languages == ("de", "ru")
    assert len(bitext) == 80
    assert bitext.where(language="ru", split="test").column("target")[0] == "кошка бежит домой."


def test_source_target_language_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", "language\tsource\ttarget\nko\tHello.\t안녕.\nfr\tHello.\tSalut.\n")
    assert [(pair.language, pair.target) for pair in read(path)] == [("ko", "안녕."), ("fr", "Salut.")]


@pytest.mark.parametrize("name", ["en-sw.tsv", "news.sw-en.tsv.gz", "big_en-sw.txt"])
def test_language_and_order_of_columns_come_from_the_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = b"Habari.\tGood day.\n" if "sw-en" in name else b"Good day.\tHabari.\n"
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (pair,) = read(path)
    assert (pair.language, pair.source, pair.target) == ("sw", "Good day.", "Habari.")


def test_language_can_be_told(tmp_path: Path) -> None:
    assert read(write(tmp_path / "x.tsv", "a b\tc d\n"), language="it").languages == ("it",)
    assert read(write(tmp_path / "y.tsv", "target\tsource\nc d\ta b\n"), language="it").column("source") == ["a b"]


def test_a_line_is_left_out_whole_and_an_unknown_split_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", "en\tde\tfr\nOne.\tEins.\tUn.\nTwo.\tZwei.\t\n")
    assert read(path, on_error="skip").column("target") == ["Eins.", "Un."]
    with pytest.raises(DataError, match="line 2: the split is 'dev'"):
        read(write(tmp_path / "y.tsv", "split\ten\tde\ndev\tOne.\tEins.\n"))


def test_a_header_is_never_taken_for_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: the header has the unknown column 'note'"):
        read(write(tmp_path / "news.en-de.tsv", "id\ten\tde\tnote\n1\tOne.\tEins.\tx\n"))
    with pytest.raises(DataError, match="line 2: the language is empty"):
        read(write(tmp_path / "x.tsv", "language\tsource\ttarget\n\tOne.\tEins.\n"))


def test_what_is_told_may_not_contradict_the_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the file name says de, but --language .* says fr"):
        read(write(tmp_path / "en-de.tsv", "One.\tEins.\n"), language="fr")


def test_source_languages_are_not_mixed(tmp_path: Path, tsv: Path) -> None:
    german = prepare(
        read(write(tmp_path / "de-fr.tsv", "Eins.\tUn.\nZwei.\tDeux.\n"), source_language="de"), out=str(tmp_path / "p.parquet")
    )
    assert read(tmp_path / "p.parquet").source_language == german.bitext.source_language == "de"
    with pytest.raises(DataError, match="different source languages: de, en"):
        read([tmp_path / "p.parquet", tsv])


def test_only_the_wanted_languages_are_kept(tsv: Path) -> None:
    assert read(tsv, languages=["ru"]).languages == ("ru",)
    with pytest.raises(DataError, match="no pairs for ja; there are pairs for de, ru"):
        read(tsv, languages=["ja"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"Good.\tGut.\nalone\n", r"en-de.tsv line 2: 1 column, expected 2 or more"),
        (b"Good.\tGut.\nGood \xe4h.\tGut.\n", r"en-de.tsv line 2: not UTF-8 \(byte 0xe4 at column 6\)"),
        (b"Good.\tGut.\nEmpty.\t \n", r"en-de.tsv line 2: the target \(de\) side is empty"),
        (b"Good.\tGut.\n\t leer\n", r"en-de.tsv line 2: the source side is empty"),
        (b"", r"en-de.tsv: no pairs"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "en-de.tsv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert caught.value.hint


def test_bad_lines_can_be_left_out_and_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "en-de.tsv", "Good.\tGut.\nalone\nBad.\tSchlecht.\n")
    assert read(path, on_error="skip").column("target") == ["Gut.", "Schlecht."]
    assert "1 bad line skipped" in caplog.text


def test_missing_unknown_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv: no such file"):
        read(tmp_path / "nowhere.tsv")
    with pytest.raises(DataError, match="is a folder without a file"):
        read(tmp_path)
    with pytest.raises(DataError, match="the target language is not known"):
        read(write(tmp_path / "pairs.tsv", "a\tb\n"))
    cut = tmp_path / "en-de.tsv.gz"
    cut.write_bytes(gzip.compress(b"Good.\tGut.\n" * 5000)[:60])
    with pytest.raises(DataError, match="the compressed file is cut short after line "):
        read(cut)
    broken = bytearray(gzip.compress(b"Good.\tGut.\n" * 5000))
    broken[30:40] = b"\xff" * 10
    cut.write_bytes(bytes(broken))
    with pytest.raises(DataError, match="the compressed file is damaged"):
        read(cut)


def test_byte_order_mark_and_windows_line_ends_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "en-de.tsv"
    path.write_bytes(b"\xef\xbb\xbfGood.\tGut.\r\n")
    assert [(pair.source, pair.target) for pair in read(path)] == [("Good.", "Gut.")]


def test_source_text_becomes_pairs_with_itself(tmp_path: Path, tsv: Path) -> None:
    extra = read_source_text([write(tmp_path / "more.txt", "One thing.\n\nAnother thing.\n")])
    both = joined(read(tsv), extra)
    assert [(pair.source, pair.target, pair.language) for pair in both][-1] == ("Another thing.",) * 2 + ("en",)
    with pytest.raises(DataError, match="no such file"):
        read_source_text(["gone.txt"])


def test_shipped_names_are_known_and_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("phrasebook").languages == phrasebook.LANGUAGES
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phrasebook").mkdir()
    assert len(read("phrasebook")) == 6000


def test_everything_in_a_folder_becomes_one_bitext(tmp_path: Path) -> None:
    write(tmp_path / "en-de.tsv", "One.\tEins.\n")
    write(tmp_path / "m.en-fr.en", "Two.\n")
    write(tmp_path / "m.en-fr.fr", "Deux.\n")
    write(tmp_path / "x.jsonl", '{"en": "Three.", "it": "Tre.", "split": "test"}\n')
    bitext = read(tmp_path)
    assert bitext.table.schema.equals(SCHEMA)
    assert [tuple(pair) for pair in bitext] == [
        ("One.", "Eins.", "de", tmp_path.name, ""),
        ("Two.", "Deux.", "fr", "m", ""),
        ("Three.", "Tre.", "it", "x", "test"),
    ]
    assert read(tmp_path, languages=["deu", "fra"]).languages == ("de", "fr")


def test_patience_is_counted_over_all_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.en-de.tsv", "Good.\tGut.\nalone\n")
    assert len(read(tmp_path, on_error="stop-after 3")) == 3
    assert caplog.text.count("1 bad line skipped") == 3
    with pytest.raises(DataError, match=r"c\.en-de\.tsv line 2: 1 column, expected 2 or more \(and 2 bad lines before it\)"):
        read(tmp_path, on_error="stop-after 2")
    with pytest.raises(DataError, match="on_error 'ignore' is not known"):
        read(tmp_path, on_error="ignore")


def test_a_store_is_read_as_it_is(tmp_path: Path) -> None:
    rows = [
        Pair("Eins ist eine Zahl.", "Un est un nombre.", "fr", "news", "test"),
        Pair("Zwei.", "Deux.", "fr", "talks", "train"),
    ]
    prepare(Bitext.of(rows, "de"), out=tmp_path / "store")
    bitext = read(tmp_path / "store")
    assert bitext.source_language == "de" and list(bitext) == rows
    (source,) = find_sources([tmp_path])
    assert [row["target"] for table in stream(source, Faults()) for row in table.to_pylist()] == [row.target for row in rows]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the format 'docx' is not known"):
        list(stream(Source(path=tmp_path, format="docx", corpus="x"), Faults()))


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    assert read_lines(str(write(tmp_path / "x.txt", "one\n\nthree\twith tab\n"))) == ["one", "", "three\twith tab"]
    assert read_lines(str(write(tmp_path / "x.txt", "\ufeffone\r\n \n two\u2028\x85\n\n"))) == ["one", "", " two\u2028\x85", ""]
    for empty in ("", "\n \n"):
        with pytest.raises(DataError, match="the file is empty"):
            read_lines(str(write(tmp_path / "y.txt", empty)))
    (tmp_path / "z.txt").write_bytes(b"good\nbad \xff\n")
    with pytest.raises(DataError, match=r"z\.txt line 2: not UTF-8"):
        read_lines(str(tmp_path / "z.txt"))
    with pytest.raises(DataError, match="is a folder"):
        read_lines(str(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        read_lines("x" * 5000)


def test_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, expected in ((b"one\n\ntwo", ["one", "", "two"]), (b"\n", None), (b"\xff", None)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(typed)))
        if expected is None:
            with pytest.raises(DataError, match="standard input"):
                read_lines("-")
        else:
            assert read_lines("-") == expected

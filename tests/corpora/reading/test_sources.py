"""What a name stands for: files, halves, folders, globs, archives and standard input, with corpus and languages."""

import io
import json
import logging
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from isogloss.corpora.reading.origin import Origin
from isogloss.corpora.reading.sources import Source, find_sources
from isogloss.errors import DataError
from parallel import put, rows, sides


def one(path: Path | str, **told: str) -> Source:
    (source,) = find_sources(path, **told)
    return source


@pytest.mark.parametrize(
    ("name", "format", "corpus", "language", "source_first"),
    [
        ("tatoeba/en-de.tsv.gz", "tsv", "tatoeba", "de", True),
        ("news.de-en.tsv", "tsv", "news", "de", False),
        ("europarl_en-fr.txt", "tsv", "europarl", "fr", True),
        ("WikiMatrix.v1.eng-jpn.tsv.zst", "tsv", "WikiMatrix.v1", "ja", True),
        ("travel.tsv", "tsv", "travel", "", True),
        ("many.parts.of.names.csv.xz", "csv", "many.parts.of.names", "", True),
        ("TED.EN-DE.TSV", "tsv", "TED.EN-DE", "", True),
        ("talks/en-sw/train-00000-of-00002.parquet", "parquet", "talks", "sw", True),
        ("ccmatrix.en-ka.jsonl.bz2", "jsonl", "ccmatrix", "ka", True),
        ("memory.tmx", "tmx", "memory", "", True),
        ("wesnoth/po/pt_BR.po", "po", "wesnoth", "pt", True),
        ("app.sr@latin.po", "po", "app", "sr-Latn", True),
        ("gimp/locale/tt/LC_MESSAGES/gimp20.mo", "mo", "gimp20", "tt", True),
        ("words/eng-swh.tei", "freedict", "words", "sw", True),
        ("list.unknown", "tsv", "list.unknown", "", True),
        ("en-th/x.tsv", "tsv", "x", "th", True),
    ],
)
def test_what_a_name_says(tmp_path: Path, name: str, format: str, corpus: str, language: str, source_first: bool) -> None:
    path = put(tmp_path / "data" / name, b"")
    source = one(path)
    assert (source.format, source.corpus, source.language) == (format, corpus, language)
    assert (source.source_first, source.path, source.source_language) == (source_first, path, "en")


def test_what_was_written_down_at_the_download_comes_first(tmp_path: Path) -> None:
    path = put(tmp_path / "x.en-de.tsv", "a\tb\n")
    Origin(corpus="MUSE", version="v2", license="CC-BY", dictionary=True).write_beside(path)
    source = one(path)
    assert (source.corpus, source.version, source.license, source.dictionary) == ("MUSE", "v2", "CC-BY", True)


def test_dictionaries_are_named_by_pattern(tmp_path: Path) -> None:
    for name in ("dict_osm/en-de.tsv", "news/en-de.tsv"):
        put(tmp_path / name, "a\tb\n")
    found = find_sources(tmp_path, dictionaries=["dict_*"])
    assert [(source.corpus, source.dictionary) for source in found] == [("dict_osm", True), ("news", False)]


def test_halves_are_found_by_either_name(tmp_path: Path) -> None:
    source_side, target_side = put(tmp_path / "news.de-en.en", "Yes.\n", ".gz"), put(tmp_path / "news.de-en.de", "Ja.\n")
    for named in (source_side, target_side):
        source = one(named)
        assert (source.path, source.other, source.language, source.corpus) == (source_side, target_side, "de", "news")
    assert len(find_sources([source_side, target_side])) == 1
    assert len(find_sources(tmp_path)) == 1
    assert sides(tmp_path) == [("Yes.", "Ja.")]


def test_three_letter_halves(tmp_path: Path) -> None:
    put(tmp_path / "tatoeba.xyz-eng.xyz", "a\n")
    put(tmp_path / "tatoeba.xyz-eng.eng", "b\n")
    assert (one(tmp_path).language, one(tmp_path).corpus) == ("xyz", "tatoeba")


def test_halves_without_a_pair_in_their_name(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "train.fr", "train.ids", "other.en"):
        put(tmp_path / name, "x\n")
    assert [source.language for source in find_sources(tmp_path)] == ["de", "fr"]
    assert [source.language for source in find_sources(tmp_path / "train.en")] == ["de", "fr"]
    assert one(tmp_path / "train.en", language="fr").other == tmp_path / "train.fr"
    assert one(tmp_path / "train.fr").other == tmp_path / "train.fr"
    with pytest.raises(DataError, match=r"other\.en: its other half is missing") as caught:
        find_sources(tmp_path / "other.en", language="de")
    assert "other.de should be beside it" in caught.value.hint


def test_a_half_that_names_its_pair_may_not_be_alone(tmp_path: Path) -> None:
    put(tmp_path / "news.de-en.de", "x\n")
    for name in (tmp_path, tmp_path / "news.de-en.de"):
        with pytest.raises(DataError, match=r"news\.de-en\.de: its other half is missing"):
            find_sources(name)


def test_scripts_in_a_folder_are_not_taken_for_halves(tmp_path: Path) -> None:
    for name in ("clean.pl", "run.sh", "lib.so", "README.md", "main.cs", "en-de.tsv"):
        put(tmp_path / name, "a\tb\n")
    assert [source.path.name for source in find_sources(tmp_path)] == ["en-de.tsv"]


def test_a_folder_is_read_deeply_in_order_and_the_rest_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for name in ("b/en-de.tsv", "a/x/en-fr.tsv.gz", "a/en-it.csv", ".hidden/en-es.tsv", "a/.en-pt.tsv", "a/notes.docx"):
        put(tmp_path / name, "One.\tEins.\n" if "csv" not in name else "One.,Uno.\n")
    for name in ("README.txt", "LICENSE", "a/en-it.csv.origin.json", "a/info.json"):
        put(tmp_path / name, '{"corpus": "x"}')
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(source.path.relative_to(tmp_path)) for source in find_sources(tmp_path)]
    assert found == ["a/en-it.csv", "a/x/en-fr.tsv.gz", "b/en-de.tsv"]
    assert "6 files skipped" in caplog.text


def test_a_corpus_that_is_passed_over_is_worth_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "en-de.tsv", "a\tb\n")
    put(tmp_path / "labels.tsv", "premise\thypothesis\tneutral\n")
    put(tmp_path / "nway.tsv", "id\ten\tfr\n1\tone\tun\n")
    assert [source.path.name for source in find_sources(tmp_path)] == ["en-de.tsv", "nway.tsv"]
    assert "1 file skipped" in caplog.text and "labels.tsv" in caplog.text
    assert len(find_sources(tmp_path, columns="source=1,target=2,header")) == 3


def test_linked_folders_are_read(tmp_path: Path) -> None:
    put(tmp_path / "far" / "en-de.tsv", "a\tb\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "here").symlink_to(tmp_path / "far")
    assert one(tmp_path / "data").corpus == "here"


def test_globs(tmp_path: Path) -> None:
    for name in ("x/en-de.tsv", "x/en-fr.tsv", "y/en-de.tsv", "y/en-de.note"):
        put(tmp_path / name, "a\tb\n")
    assert [source.corpus for source in find_sources(f"{tmp_path}/*/en-de.*")] == ["x", "y"]
    assert len(find_sources(f"{tmp_path}/**/*.tsv")) == len(find_sources(f"{tmp_path}/*")) == 3
    assert len(find_sources(f"{tmp_path}/y/*.note", language="de", format="tsv")) == 1
    with pytest.raises(DataError, match="no file matches"):
        find_sources(f"{tmp_path}/*.gz")
    with pytest.raises(DataError, match="matches 1 file, but none that can be read"):
        find_sources(f"{tmp_path}/y/*.note")
    odd = put(tmp_path / "odd[1].en-de.tsv", "a\tb\n")
    assert one(odd).path == odd


def test_explicit_names_keep_their_order(tmp_path: Path) -> None:
    paths = [put(tmp_path / name / "en-de.tsv", "a\tb\n") for name in "cab"]
    assert [source.corpus for source in find_sources(paths)] == ["c", "a", "b"]


def test_archives_of_anything(tmp_path: Path) -> None:
    path = tmp_path / "en-de.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (
            ("corpus/README", "x"),
            ("corpus/medicine.tsv", "Yes.\tJa.\n"),
            ("corpus/tatoeba/de-en.tsv", "Nein.\tNo.\n"),
            (
                "corpus/law.tmx",
                '<tmx><tu><tuv xml:lang="en"><seg>Oh.</seg></tuv><tuv xml:lang="de"><seg>Ach.</seg></tuv></tu></tmx>',
            ),
            ("__MACOSX/corpus/._medicine.tsv", "junk"),
        ):
            archive.writestr(name, text)
    found = find_sources(path)
    assert [(source.corpus, source.language) for source in found] == [("law", "de"), ("medicine", "de"), ("tatoeba", "de")]
    assert sides(path) == [("Oh.", "Ach."), ("Yes.", "Ja."), ("No.", "Nein.")]
    Origin(corpus="EMEA", license="free").write_beside(path)
    assert {(source.corpus, source.license) for source in find_sources(tmp_path)} == {("EMEA", "free")}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "x")
    with pytest.raises(DataError, match="the archive has no file that can be read"):
        find_sources(path)


def test_an_archive_without_pairs_is_passed_over_in_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("main.c", "x")
    put(tmp_path / "en-de.tsv", "a\tb\n")
    assert one(tmp_path).format == "tsv"


def test_a_told_format_chooses_in_a_folder(tmp_path: Path) -> None:
    for name in ("en-de.txt", "en-de.tsv", "m.en-de.en", "m.en-de.de", "x.tmx"):
        put(tmp_path / name, "one two\n")
    for format, names in (("muse", ["en-de.tsv", "en-de.txt"]), ("moses", ["m.en-de.en"]), ("tmx", ["x.tmx"])):
        assert [source.path.name for source in find_sources(tmp_path, format=format)] == names
    assert {source.format for source in find_sources(f"{tmp_path}/m*", format="moses")} == {"moses"}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))

    typed("One.\tEins.\n")
    assert sides("-", language="de") == [("One.", "Eins.")]
    typed('{"en": "One.", "fr": "Un."}\n')
    assert rows("-", format="jsonl")[0]["language"] == "fr"
    typed("alone\n")
    with pytest.raises(DataError, match="standard input line 1: 1 column"):
        rows("-", language="de")
    with pytest.raises(DataError, match="Moses text, which is two files"):
        find_sources("-", format="moses")


def test_a_store_is_one_source_wherever_it_lies(tmp_path: Path) -> None:
    put(tmp_path / "store" / "manifest.json", json.dumps({"isogloss_store": 1}))
    put(tmp_path / "store" / "pairs" / "part.parquet", b"")
    put(tmp_path / "en-de.tsv", "a\tb\n")
    assert one(tmp_path / "store").format == "store"
    assert [source.format for source in find_sources(tmp_path)] == ["store", "tsv"]


@pytest.mark.parametrize("name", ["gone.tsv", "gone/x.tsv", "", "x" * 5000, "nul\0byte", "*" * 300, "x.tsv/y"])
def test_names_that_are_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "x.tsv", "")
    with pytest.raises(DataError) as caught:
        find_sources(name)
    assert len(caught.value.message) < 500 and caught.value.hint


def test_folders_without_pairs_and_formats_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder without a file that can be read"):
        find_sources(tmp_path)
    with pytest.raises(DataError, match="the format 'docx' is not known"):
        find_sources(tmp_path, format="docx")
    with pytest.raises(DataError, match="the name does not end in a language"):
        find_sources(put(tmp_path / "x.tsv", ""), format="moses")


def test_what_is_told_may_not_contradict_the_name(tmp_path: Path) -> None:
    for name in ("en-de.tsv", "de.po"):
        with pytest.raises(DataError, match=r"the file name says de, but --language .* says fr"):
            find_sources(put(tmp_path / name, ""), language="fr")
    put(tmp_path / "m.de-en.de", "")
    with pytest.raises(DataError, match=r"the file name says de, but --language .* says fr"):
        find_sources(put(tmp_path / "m.de-en.en", ""), language="fr")
    assert one(tmp_path / "en-de.tsv", language="ger").language == "de"
    assert one(tmp_path / "en-de.tsv", language="de-AT").language == "de-AT"

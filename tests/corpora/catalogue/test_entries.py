"""The list: every entry is whole, and names are found the way people write them."""

import string

import pytest

from isogloss.corpora.catalogue.entries import Entry, as_languages, entries, find, spellings
from isogloss.errors import DataError

ALL = list(entries().values())
PAPERS = {
    "R&G": "GlobalVoices TED2020 NewsCommentary WikiMatrix Tatoeba Europarl JW300 OpenSubtitles2018 UNPC MUSE Wikititles",
    "H&K": "ParaCrawl ParaCrawl-v6 JParaCrawl OpenSubtitles2018 UNPC SCB-MT-EN-TH-2020 Turkish-parallel-corpora AIHub",
}


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_every_entry_says_what_a_person_must_know(entry: Entry) -> None:
    assert entry.what.endswith(".") and entry.license
    assert entry.page.startswith(("http://", "https://"))
    assert entry.by in ("opus", "hub", "files", "wikipedia", "hand")
    assert len(entry.name) <= 34 and len(entry.license) <= 18, "it stands in a table of 80 columns"
    assert list(entry.languages) == sorted(set(entry.languages))
    assert bool(entry.files) == (entry.by == "files")
    assert bool(entry.why and entry.how) == (entry.by == "hand")
    assert bool(entry.repo) == (entry.by == "hub")
    assert set(entry.papers) <= set(PAPERS)


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry.files], ids=lambda entry: entry.name)
def test_addresses_have_only_the_names_that_are_filled_in(entry: Entry) -> None:
    for name, url in entry.files.items():
        fields = {field for text in (name, url) for _, field, _, _ in string.Formatter().parse(text) if field}
        assert fields <= {"source", "target", "first", "second", "other"}
        assert url.startswith("https://") and "/" not in name
    assert entry.version and entry.layout in ("", "scored", "csv in zip")


@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_corpora_are_all_there(paper: str) -> None:
    assert {entry.name for entry in ALL if paper in entry.papers} == set(PAPERS[paper].split())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("TED2020", "TED2020"),
        ("ted-2020", "TED2020"),
        ("news-commentary", "NewsCommentary"),
        ("OpenSubtitles", "OpenSubtitles2018"),
        ("opensubtitles_2018", "OpenSubtitles2018"),
        ("SCB", "SCB-MT-EN-TH-2020"),
        ("muse", "MUSE"),
    ],
)
def test_names_are_found_as_people_write_them(written: str, meant: str) -> None:
    assert find(written).name == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [("Europal", "Europarl"), ("TED2002", "TED2020"), ("wikimatrx", "WikiMatrix"), ("Para-Craw", "ParaCrawl")],
)
def test_a_slip_of_the_pen_is_answered_with_the_nearest_name(written: str, meant: str) -> None:
    with pytest.raises(DataError, match=f"no corpus is called '{written}'") as caught:
        find(written)
    assert f"did you mean {meant}" in caught.value.hint


def test_nothing_near_is_not_guessed_at() -> None:
    with pytest.raises(DataError) as caught:
        find("qqqqqqqq")
    assert "did you mean" not in caught.value.hint and "corpora list" in caught.value.hint


def test_any_corpus_of_a_service_can_be_named() -> None:
    books = find("opus:Books")
    assert (books.name, books.by, books.page) == ("Books", "opus", "https://opus.nlpl.eu/Books")
    mine = find("hub:someone/some-pairs")
    assert (mine.name, mine.by, mine.repo) == ("some-pairs", "hub", "someone/some-pairs")
    for odd in ("opus:../up", "hub:nobody", "hub:a/../b", "opus:"):
        with pytest.raises(DataError):
            find(odd)


@pytest.mark.parametrize(
    ("written", "pair"),
    [
        ("en-de", ("en", "de")),
        (" en-zh_cn ", ("en", "zh_cn")),
        ("en-pt-BR", ("en", "pt_br")),
        ("zh_Hant-en", ("zh_Hant", "en")),
    ],
)
def test_pairs_of_languages(written: str, pair: tuple[str, str]) -> None:
    assert as_languages(written) == pair


@pytest.mark.parametrize("written", ["", "en", "en-en", "en-de-fr", "en_de", "EN-DE", "en-../x", "en-d"])
def test_what_is_not_a_pair_is_refused(written: str) -> None:
    with pytest.raises(DataError, match="is not a language pair"):
        as_languages(written)


def test_languages_are_known_in_any_spelling() -> None:
    assert find("GlobalVoices").may_have(("en", "ja")) and find("GlobalVoices").spelling("ja") == "jp"
    assert find("TED2020").may_have(("en", "zh")) and find("TED2020").may_have(("fr", "pt_br"))
    assert not find("Europarl").may_have(("en", "tr"))
    assert find("Tatoeba").may_have(("en", "tlh")), "nobody has listed them: only the service knows"
    assert spellings("de") == ("de",) and spellings("fr_ca") == ("fr_ca", "fr_CA")

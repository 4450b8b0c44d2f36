"""Codes of languages: one form for each, and names of files that tell a pair and names that do not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isogloss.corpora.reading import languages
from isogloss.corpora.reading.languages import canonical, is_known, pair_in, same_language, without_pairs, without_region


@pytest.mark.parametrize(
    ("code", "short"),
    [
        *(
            ("eng", "en"),
            ("deu", "de"),
            ("ger", "de"),
            ("jpn", "ja"),
            ("cmn", "zh"),
            ("zho", "zh"),
            ("chi", "zh"),
            ("nob", "nb"),
        ),
        *(
            ("pt_br", "pt-BR"),
            ("PT-br", "pt-BR"),
            ("zho_Hant", "zh-Hant"),
            ("zho_Hans", "zh"),
            ("eng_Latn", "en"),
            ("ceb", "ceb"),
        ),
        *(
            ("es-419", "es-419"),
            ("de_DE.UTF-8", "de-DE"),
            ("sr@latin", "sr-Latn"),
            ("ca@valencia", "ca"),
            ("iw", "he"),
            ("", ""),
        ),
    ],
)
def test_canonical(code: str, short: str) -> None:
    assert canonical(code) == short
    assert canonical(short) == short


@given(st.text(max_size=12))
@example(".AA")
@example(" _-@de. DE ")
def test_any_text_has_a_stable_form(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)
    assert without_region(without_region(text)) == without_region(text)


def test_tables_agree() -> None:
    # ISO 639-1 has 183, and corpora still use sh.
    short = set(languages._ALIASES.values())
    assert len(short) == 184 and all(len(code) == 2 for code in short)
    assert all(is_known(code) and canonical(code) == code for code in short)
    long = set(languages._LONG_ONLY.split())
    assert all(len(code) == 3 and canonical(code) == code for code in long)
    assert not is_known("url") and not is_known("xx") and is_known("yue")


def test_a_country_may_be_left_open() -> None:
    assert same_language("pt", "pt-BR") and same_language("pt-BR", "pt") and not same_language("pt-PT", "pt-BR")


@pytest.mark.parametrize(
    ("stem", "pair", "rest"),
    [
        ("en-de", ("de", True), ""),
        ("news.de-en", ("de", False), "news"),
        ("europarl_en-fr", ("fr", True), "europarl"),
        ("big_en-sw", ("sw", True), "big"),
        ("europarl-v7.de-en", ("de", False), "europarl-v7"),
        ("tatoeba.deu-eng", ("de", False), "tatoeba"),
        ("WikiMatrix.v1.en-pt_br", ("pt-BR", True), "WikiMatrix.v1"),
        ("OpenSubtitles.en-zh-Hant", ("zh-Hant", True), "OpenSubtitles"),
        ("en-de.0-5000", ("de", True), "0-5000"),
        ("freedict-eng-deu-1.9-fd1.src", ("de", True), "freedict"),
        ("wiki-en-de", ("de", True), "wiki"),
        ("en-de_dev", ("de", True), "dev"),
        ("xyz-eng", ("xyz", False), ""),
        ("en-xx", ("xx", True), ""),
        ("dev-en", None, None),
        ("state-of-en", None, None),
        ("stsb-de-test", None, None),
        ("de-fr", None, ""),
        ("en-en", None, ""),
        ("english-german", None, "english-german"),
    ],
)
def test_pairs_in_names(stem: str, pair: tuple[str, bool] | None, rest: str | None) -> None:
    assert pair_in(stem, "en") == pair
    assert rest is None or without_pairs(stem, "en") == rest


@given(
    st.sampled_from(sorted(languages._KNOWN)), st.sampled_from(sorted(languages._KNOWN)), st.sampled_from(["", "news.", "a_"])
)
def test_every_known_pair_is_read_from_a_name(one: str, other: str, before: str) -> None:
    same = canonical(one) == canonical(other)
    assert pair_in(f"{before}{one}-{other}", canonical(one)) == (None if same else (canonical(other), True))
    assert pair_in(f"{before}{other}-{one}", canonical(one)) == (None if same else (canonical(other), False))

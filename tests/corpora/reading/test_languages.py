"""Codes of languages: one form for each, and names of files that tell a pair and names that do not."""

from string import ascii_lowercase

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


SHORT = sorted({canonical(a + b) for a in ascii_lowercase for b in ascii_lowercase if is_known(a + b)})
LONG = sorted(languages._LONG)


def test_known_codes() -> None:
    # ISO 639-1 has 183, and corpora still use sh.
    assert len(SHORT) == 184 and {"sh", "tl", "tw", "no", "nb"} <= set(SHORT)
    assert all(canonical(code) == code for code in (*SHORT, *LONG))
    assert not is_known("url") and not is_known("xx") and is_known("yue") and not is_known("in")


def test_members_of_macrolanguages_and_old_codes() -> None:
    members = "arb:ar swh:sw pes:fa lvs:lv ekk:et zsm:ms uzn:uz azj:az khk:mn npi:ne ory:or plt:mg ydd:yi kmr:ku gaz:om pbt:ps"
    old = (
        "alb:sq arm:hy baq:eu bur:my cze:cs dut:nl fre:fr geo:ka gre:el ice:is mac:mk mao:mi may:ms per:fa rum:ro slo:sk scc:sr"
    )
    for entry in f"{members} {old} tib:bo wel:cy scr:hr hbs:sh tgl:tl twi:tw ji:yi jw:jv".split():
        code, short = entry.split(":")
        assert canonical(code) == short and is_known(code)


def test_a_script_kept_where_it_is_not_the_usual_one() -> None:
    for code in ("sr-Latn", "uz-Cyrl", "az-Arab", "kk-Latn", "pa-Arab", "ku-Arab", "mn-Mong", "sd-Deva", "ms-Arab", "ks-Deva"):
        assert canonical(code.replace("-", "_")) == code
    for code in ("hi_Deva", "ru_Cyrl", "zh_Hans", "ks_Arab", "ace_Latn"):
        assert canonical(code) == code.split("_")[0]


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


@given(st.sampled_from([*SHORT, *LONG]), st.sampled_from([*SHORT, *LONG]), st.sampled_from(["", "news.", "a_"]))
def test_every_known_pair_is_read_from_a_name(one: str, other: str, before: str) -> None:
    same = canonical(one) == canonical(other)
    assert pair_in(f"{before}{one}-{other}", canonical(one)) == (None if same else (canonical(other), True))
    assert pair_in(f"{before}{other}-{one}", canonical(one)) == (None if same else (canonical(other), False))

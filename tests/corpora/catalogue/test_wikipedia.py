"""Titles from Wikipedia's dumps: what mysqldump writes is read back, whatever is in a title, and joined as by hand."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.catalogue import wikipedia
from isogloss.errors import DataError

HEAD = "-- MySQL dump\nDROP TABLE IF EXISTS `{0}`;\nCREATE TABLE `{0}` (\n  `x` int(8) NOT NULL DEFAULT 0,\n);\nLOCK TABLES;\n"


def quoted(title: str) -> str:
    """A string as mysqldump writes it."""
    for plain, written in (
        ("\\", "\\\\"),
        ("'", "\\'"),
        ('"', '\\"'),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\0", "\\0"),
        ("\x1a", "\\Z"),
    ):
        title = title.replace(plain, written)
    return f"'{title}'"


def link(page: int, language: str, title: str) -> str:
    return f"({page},{quoted(language)},{quoted(title)})"


def page(number: int, namespace: int, title: str) -> str:
    return f"({number},{namespace},{quoted(title)},0,1,0.33167112649574,'20240101000000',NULL,7,-12,'wikitext',NULL)"


def dump(path: Path, table: str, *inserts: list[str], newlines: bool = False) -> Path:
    between, opening = (",\n", "\n") if newlines else (",", " ")
    text = HEAD.format(table)
    text += "".join(f"INSERT INTO `{table}` VALUES{opening}{between.join(rows)};\n" for rows in inserts)
    path.write_bytes(gzip.compress((text + "UNLOCK TABLES;\n").encode()))
    return path


@pytest.mark.parametrize("newlines", [False, True], ids=["one line an insert", "one line a row"])
def test_titles_are_joined(tmp_path: Path, newlines: bool) -> None:
    links = dump(
        tmp_path / "links.gz",
        "langlinks",
        [link(1, "en", "United States"), link(1, "fr", "États-Unis"), link(2, "en", "Rock 'n' Roll (1,'en','x')")],
        [link(3, "en", 'Back\\slash "quote"'), link(4, "en", "Talk:Berlin"), link(5, "en", ""), link(7, "en", "No page")],
        newlines=newlines,
    )
    pages = dump(
        tmp_path / "pages.gz",
        "page",
        [page(2, 0, "Rock_’n’_Roll_(1,0,"), page(1, 0, "Vereinigte_Staaten"), page(3, 0, "Rück\\strich's_Ende\\")],
        [page(4, 1, "Berlin"), page(5, 0, "Leer"), page(6, 0, "Ohne_Verweis")],
        newlines=newlines,
    )
    expected = [
        ("Rock 'n' Roll (1,'en','x')", "Rock ’n’ Roll (1,0,"),
        ("United States", "Vereinigte Staaten"),
        ('Back\\slash "quote"', "Rück\\strich's Ende\\"),
    ]
    assert list(wikipedia.titles(links, pages, ("en", "de"))) == expected
    assert list(wikipedia.titles(links, pages, ("de", "en"))) == [(german, english) for english, german in expected]
    assert list(wikipedia.titles(links, pages, ("fr", "de"))) == [("États-Unis", "Vereinigte Staaten")]


titles = st.text(st.characters(codec="utf-8"), min_size=0, max_size=12) | st.sampled_from(
    ["'", "\\", "\\'", "),(", "'),('", "(1,0,", "a;\n", ",'en','", "NULL", "--", "''"]
)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 20), st.sampled_from(["en", "fr", "zh-yue"]), titles), max_size=5), max_size=4)
)
def test_whatever_is_inserted_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, inserts: list[list[tuple[int, str, str]]]
) -> None:
    inserts = [rows for rows in inserts if rows] or [[(1, "en", "x")]]
    written = [[link(*row) for row in rows] for rows in inserts]
    path = dump(tmp_path_factory.mktemp("dump") / "links.gz", "langlinks", *written)
    read = [
        (int(number), wikipedia.text(language).decode(), wikipedia.text(title).decode())
        for number, language, title in wikipedia.rows(path, "langlinks")
    ]
    assert read == [row for rows in inserts for row in rows]


names = st.text("ab_ '\\", min_size=1, max_size=6).filter(lambda name: name.replace("_", " ").strip())


@given(
    st.dictionaries(st.tuples(st.integers(1, 9), st.sampled_from(["en", "fr"])), names, min_size=1),
    st.dictionaries(st.integers(1, 9), st.tuples(st.sampled_from([0, 1, 14]), names), min_size=1),
)
def test_the_join_is_the_one_by_hand(
    tmp_path_factory: pytest.TempPathFactory, links: dict[tuple[int, str], str], pages: dict[int, tuple[int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("join")
    langlinks = dump(folder / "links.gz", "langlinks", [link(*key, title) for key, title in links.items()])
    page_dump = dump(folder / "pages.gz", "page", [page(number, *rest) for number, rest in pages.items()])
    by_hand = [
        (english.replace("_", " ").strip(), title.replace("_", " ").strip())
        for number, (namespace, title) in pages.items()
        for (linked, language), english in links.items()
        if namespace == 0 and language == "en" and linked == number
    ]
    assert list(wikipedia.titles(langlinks, page_dump, ("en", "de"))) == by_hand


def test_values_that_are_not_strings_and_strings_that_are_marked_binary(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"INSERT INTO `page` VALUES (1,0,_binary 'A\\'B',NULL),(2,-1,'it''s',0x41);\n"))
    rows = list(wikipedia.rows(path, "page"))
    assert [tuple(map(wikipedia.text, row)) for row in rows] == [(b"1", b"0", b"A'B"), (b"2", b"-1", b"it's")]


def test_titles_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    links = dump(tmp_path / "links.gz", "langlinks", [link(1, "en", "A\tB"), link(2, "en", "good"), link(3, "en", "x")])
    pages = tmp_path / "pages.gz"
    pages.write_bytes(gzip.compress(b"INSERT INTO `page` VALUES (1,0,'a'),(2,0,'gut'),(3,0,'\xff\xfe');\n"))
    assert list(wikipedia.titles(links, pages, ("en", "de"))) == [("good", "gut")]


@pytest.mark.parametrize("broken", [b"(1,'en','x'),(2,'en", b"(1,'en','x') (2,'en','y');", b"nothing;", b"(1);"])
def test_a_dump_that_is_broken_says_where(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"-- head\nINSERT INTO `langlinks` VALUES " + broken + b"\n"))
    with pytest.raises(DataError, match="line 2: not a row of langlinks"):
        list(wikipedia.rows(path, "langlinks"))


def test_a_dump_that_is_cut_or_another(tmp_path: Path) -> None:
    whole = dump(tmp_path / "whole.gz", "langlinks", [link(number, "en", f"title {number * 7919}") for number in range(2000)])
    cut = tmp_path / "cut.gz"
    cut.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(DataError, match="the dump is damaged"):
        list(wikipedia.rows(cut, "langlinks"))
    with pytest.raises(DataError, match="no rows of page"):
        list(wikipedia.rows(whole, "page"))


def test_the_smaller_wikipedia_is_read() -> None:
    base = "https://dumps.wikimedia.org/dewiki/latest/dewiki-latest"
    assert wikipedia.addresses(("en", "de"), "latest") == (f"{base}-langlinks.sql.gz", f"{base}-page.sql.gz")
    assert wikipedia.addresses(("de", "en"), "latest") == wikipedia.addresses(("en", "de"), "latest")
    assert wikipedia.addresses(("en", "nb"), "20240101")[0].endswith("/nowiki/20240101/nowiki-20240101-langlinks.sql.gz")


@pytest.mark.parametrize("number", [b"x", b"'1'", b"-1", b"\xc2\xb2", b"9" * 5000])
def test_a_page_without_a_number(tmp_path: Path, number: bytes) -> None:
    good = {"langlinks": b"(1,'en','x');", "page": b"(1,0,'x');"}
    for bad in good:
        paths = []
        for table, rows in good.items():
            paths.append(tmp_path / f"{table}.gz")
            rows = rows.replace(b"1", number, 1) if table == bad else rows
            paths[-1].write_bytes(gzip.compress(f"INSERT INTO `{table}` VALUES ".encode() + rows + b"\n"))
        with pytest.raises(DataError, match="is not the number of a page"):
            list(wikipedia.titles(paths[0], paths[1], ("en", "de")))

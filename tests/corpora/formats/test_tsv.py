"""TSV: whole blocks at once give what a loop over lines would, and every line that does not fit is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading import blocks, lines
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from isogloss.errors import DataError
from parallel import PACK, complaint, put, rows, sides

# Pieces that lines of TSV are made of, good and bad: every whitespace, control and byte-order oddity that a file may hold.
PIECES = [
    b"a",
    b"B c",
    b"\t",
    b"\t",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\x0b",
    b"\0",
]
ODD = [b"\xff", b"\xe2\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\x8f\xd7\xa9", b'"', b"\xf0\x9f\x98\x80", b"en"]


def by_hand(data: bytes) -> tuple[list[tuple[str, str, int]], int]:
    """What the reader should give, line by line: the pairs with their lines, and how many lines do not fit."""
    pairs, bad = [], 0
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            bad += 1
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if not any(cells):
            continue
        if len(cells) < 2 or not cells[0] or not cells[1]:
            bad += 1
        else:
            pairs.append((cells[0], cells[1], number))
    return pairs, bad


@given(data=st.lists(st.sampled_from(PIECES * 3 + ODD), max_size=60).map(b"".join), packing=st.sampled_from(["", ".gz"]))
def test_any_bytes_give_what_a_loop_gives_and_the_counts_add_up(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, packing: str
) -> None:
    path = put(tmp_path_factory.mktemp("x") / "en-de.tsv", b"One.\tEins.\n" + data, packing)
    faults = Faults("skip")
    found = [(row["source"], row["target"], row["line"]) for row in rows(path, faults)]
    expected, bad = by_hand(b"One.\tEins.\n" + data)
    assert (found, faults.count) == (expected, bad)


@given(data=st.lists(st.sampled_from(PIECES + ODD), max_size=60).map(b"".join), block=st.integers(1, 40))
def test_the_size_of_blocks_changes_nothing(tmp_path_factory: pytest.TempPathFactory, data: bytes, block: int) -> None:
    path = put(tmp_path_factory.mktemp("x") / "en-de.tsv", b"One.\tEins.\n" + data)
    whole, few = Faults("skip"), Faults("skip")
    expected = rows(path, whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        assert rows(path, few) == expected
    assert (few.count, few.first) == (whole.count, whole.first)


@pytest.mark.parametrize("policy", ["fail", "stop-after 1"])
def test_the_first_bad_line_is_named_whatever_is_wrong_with_later_ones(tmp_path: Path, policy: str) -> None:
    path = put(tmp_path / "en-de.tsv", b"One.\tEins.\nalone\nTwo.\t\n\xff\n")
    with pytest.raises(DataError, match=r"line 2: 1 column" if policy == "fail" else r"line 3: .* \(and 1 bad line before"):
        rows(path, Faults(policy))


def test_latin1_and_utf16_are_told_apart(tmp_path: Path) -> None:
    latin = complaint(put(tmp_path / "en-de.tsv", "Yes.\tJa.\nEgg.\tEi für\n".encode("latin1")))
    assert "line 2: not UTF-8 (byte 0xfc at column 10)" in latin.message and "LATIN1" in latin.hint
    for encoding in ("utf-16", "utf-16-be"):
        wide = complaint(put(tmp_path / "en-de.tsv", "Tea.\tЧай.\nÄhre\tКолос\n".encode(encoding)))
        assert "UTF-16" in wide.message and "UTF-16" in wide.hint
    # With a mark at its start it is no UTF-8 text at all, and skipping its lines would leave garbage.
    with pytest.raises(DataError, match="UTF-16"):
        rows(put(tmp_path / "en-de.tsv", "Tea.\tTee.\n".encode("utf-16")), Faults("skip"))


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.tsv", "\ufeffa\rb\u2028c\x85d\x0be\tA\rB\r\n\r\n  \nlast\tletzte")
    assert [(row["source"], row["target"], row["line"]) for row in rows(path)] == [
        ("a\rb\u2028c\x85d\x0be", "A\rB", 1),
        ("last", "letzte", 4),
    ]


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    long = "ä" * 5_000_000
    path = put(tmp_path / "en-de.tsv", f"{long}\tx\nshort\t{long}\nlast\tletzte\n", ".gz")
    assert sides(path) == [(long, "x"), ("short", long), ("last", "letzte")]


def test_a_file_without_line_ends_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 2 * blocks.BLOCK_BYTES)
    path = put(tmp_path / "en-de.tsv", b"a" * (3 * blocks.BLOCK_BYTES))
    assert "a line is longer than" in complaint(path).message


def test_n_way_rows_stay_together_and_blocks_are_small(tmp_path: Path) -> None:
    languages = ["de", "fr", "it", "es", "pt-BR"]
    text = "\t".join(["id", "en", *languages, "score"]) + "\n"
    text += "".join(f"{n}\tone {n}\t" + "\t".join(f"{code} {n}" for code in languages) + f"\t{n / 2}\n" for n in range(20_000))
    found = rows(put(tmp_path / "x.tsv", text))
    assert [row["language"] for row in found[:6]] == [*languages, "de"]
    assert found[7] == {"source": "one 1", "target": "it 1", "language": "it", "split": "", "score": 0.5, "line": 3}
    assert len(found) == 100_000
    (source,) = find_sources(tmp_path / "x.tsv")
    sizes = [block.num_rows for block in stream(source, Faults())]
    assert max(sizes) <= 32_768 and all(size % len(languages) == 0 for size in sizes)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("score=1,source=2,target=3", ("a", "b", 1.5)),
        ("target=2, source=3", ("b", "a", None)),
        ("en=2,de=3,score=1", ("a", "b", 1.5)),
    ],
)
def test_columns_by_position(tmp_path: Path, columns: str, expected: tuple[object, ...]) -> None:
    found = rows(put(tmp_path / "WikiMatrix.en-de.tsv", "1.5\ta\tb\n\tc\td\n"), columns=columns)
    assert (found[0]["source"], found[0]["target"], found[0]["score"]) == expected
    assert found[1]["score"] is None and len(found) == 2


def test_columns_by_name(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", "note\ttext_en\ttext_de\tset\nx\ta\tb\ttest\n")
    (row,) = rows(path, columns="source=text_en,target=text_de,split=set", language="de")
    assert (row["source"], row["target"], row["split"], row["line"]) == ("a", "b", "test", 2)
    assert "no column 'title'" in complaint(path, columns="source=title,target=text_de", language="de").message
    assert sides(path, columns="source=2,target=3,header", language="de") == [("a", "b")]


@pytest.mark.parametrize("columns", ["source", "source=0", "source=1,source=2", "colour=1", "=", "source=1", "de=2"])
def test_columns_that_say_nothing_are_refused(tmp_path: Path, columns: str) -> None:
    assert "columns" in complaint(put(tmp_path / "en-de.tsv", "a\tb\n"), columns=columns).message


def test_quotes_are_text_unless_told_or_the_header_is_quoted(tmp_path: Path) -> None:
    assert sides(put(tmp_path / "en-de.tsv", '"Hi," he said.\t"Hallo", sagte er.\n')) == [
        ('"Hi," he said.', '"Hallo", sagte er.')
    ]
    quoted = 'x\t"a ""b"" c"\n'
    assert sides(put(tmp_path / "en-de.tsv", quoted), columns="source=1,target=2,quoted") == [("x", 'a "b" c')]
    assert sides(put(tmp_path / "y.tsv", f'"en"\t"de"\n{quoted}')) == [("x", 'a "b" c')]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("en\tde\tscore\na\tb\thigh\n", "line 2: the score is 'high', not a number"),
        ("en\tde\tscore\na\tb\tinf\n", "line 2: the score is 'inf', not a number"),
        ("source\ttarget\tlanguage\na\tb\tGerman\n", "line 2: the language is 'German', not a code"),
        ("en\tde\tsplit\na\tb\n", "line 2: 2 columns, expected 3 or more"),
        ("en\tde\turl\na\tb\tc\n", "line 1: the header has the unknown column 'url'"),
        ("id\ten\n1\tone\n", "line 1: no column for a second language"),
    ],
)
def test_cells_that_do_not_fit_are_named(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(put(tmp_path / "x.tsv", text)).message


def test_codes_in_headers_are_brought_to_one_form(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", "eng\tdeu\tpt_BR\tsplit\nOne.\tEins.\tUm.\ttest\n")
    assert [(row["language"], row["split"]) for row in rows(path)] == [("de", "test"), ("pt-BR", "test")]
    path = put(tmp_path / "y.tsv", "source\ttarget\tlanguage\nOne.\tEins.\tger\nOne.\tUn.\tfra\n")
    assert [row["language"] for row in rows(path)] == ["de", "fr"]


def test_words_that_are_also_codes_are_not_taken_for_a_header(tmp_path: Path) -> None:
    assert sides(put(tmp_path / "fr-en.tsv", "en\tin\nsur\ton\n")) == [("in", "en"), ("on", "sur")]
    assert sides(put(tmp_path / "de-en.tsv", "eng\tnarrow\n")) == [("narrow", "eng")]
    assert [row["language"] for row in rows(put(tmp_path / "en-id.tsv", "en\tid\nOne.\tSatu.\n"))] == ["id"]


def test_a_header_of_other_languages_than_the_told_one_is_still_a_header(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tsv", "id\ten\tde\tfr\n1\tOne.\tEins.\tUn.\n")
    assert [row["language"] for row in rows(path, language="sw")] == ["de", "fr"]
    path = put(tmp_path / "x.tsv", "id\ten\tde\tnote\n1\tOne.\tEins.\tx\n")
    assert "the unknown column 'note'" in complaint(path, language="sw").message


def test_a_packed_file_with_a_plain_name_is_recognised(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.tsv", PACK[".gz"](b"One.\tEins.\n"))
    assert "this is not text but a .gz file" in complaint(path).message

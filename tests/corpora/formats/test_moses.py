"""Moses text: two files in step, line by line, however the bytes of either fall into blocks."""

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading import lines
from isogloss.corpora.reading.malformed import Faults
from isogloss.errors import DataError
from parallel import SOME, complaint, put, rows, sides

LINE = st.sampled_from([b"", b" ", b"word", b"more words\r", b"\xff", b"a\tb", b"\xc2\x85x", b"x" * 30])


@given(table=st.lists(st.tuples(LINE, LINE), min_size=1, max_size=25), block=st.integers(1, 50))
def test_lines_stay_in_step_and_the_counts_add_up(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[bytes, bytes]], block: int
) -> None:
    folder = tmp_path_factory.mktemp("x")
    path = put(folder / "t.en", b"".join(line + b"\n" for line, _ in table))
    put(folder / "t.de", b"".join(line + b"\n" for _, line in table))
    faults = Faults("skip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        found = rows(path, faults)
    content = [number for number, pair in enumerate(table, 1) if any(side.strip() for side in pair)]
    good = {n: pair for n, pair in enumerate(table, 1) if all(side.strip() and side != b"\xff" for side in pair)}
    assert {row["line"]: (row["source"], row["target"]) for row in found} == {
        number: tuple(side.decode().strip() for side in pair) for number, pair in good.items()
    }
    assert len(found) + faults.count == len(content)


def test_different_numbers_of_lines_are_an_error_with_both_counts(tmp_path: Path) -> None:
    put(tmp_path / "t.en", "a\nb\nc\n")
    put(tmp_path / "t.de", "a\nb\n")
    with pytest.raises(DataError, match=r"t\.en has 3, .*t\.de has 2"):
        rows(tmp_path / "t.en", Faults("skip"))


def test_the_side_that_is_bad_is_named(tmp_path: Path) -> None:
    put(tmp_path / "t.en", "a\n\nc\n")
    put(tmp_path / "t.de", b"a\nb\n\xff\n")
    assert "t.en line 2: the source side is empty" in complaint(tmp_path / "t.de").message
    put(tmp_path / "t.en", "a\nb\nc\n")
    assert "t.de line 3: not UTF-8 (byte 0xff at column 1)" in complaint(tmp_path / "t.en").message
    put(tmp_path / "t.de", "a\n\nc\n")
    assert "t.de line 2: the target (de) side is empty" in complaint(tmp_path / "t.en").message


def test_scores_beside_are_read(tmp_path: Path) -> None:
    put(tmp_path / "wiki.de-en.en", "a\nb\n")
    put(tmp_path / "wiki.de-en.de", "c\nd\n")
    put(tmp_path / "wiki.de-en.scores", "1.25\n\n")
    assert [row["score"] for row in rows(tmp_path / "wiki.de-en.de")] == [1.25, None]
    put(tmp_path / "wiki.de-en.scores", "1.25\nhigh\n")
    assert "line 2: the score is 'high'" in complaint(tmp_path / "wiki.de-en.de").message
    put(tmp_path / "wiki.de-en.scores", "1.25\n")
    assert "different numbers of lines" in complaint(tmp_path / "wiki.de-en.de").message


def test_a_zip_as_opus_gives_it(tmp_path: Path) -> None:
    path = tmp_path / "de-en.txt.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (
            ("README", "about"),
            ("LICENSE", "terms"),
            ("TED2020.de-en.de", "".join(f"{target}\n" for _, target in SOME)),
            ("TED2020.de-en.en", "".join(f"{source}\n" for source, _ in SOME)),
            ("TED2020.de-en.xml", "<x/>"),
        ):
            archive.writestr(name, text)
    assert sides(path) == SOME
    cut = path.read_bytes()
    path.write_bytes(cut[: len(cut) // 2])
    assert "the archive is damaged" in complaint(path).message

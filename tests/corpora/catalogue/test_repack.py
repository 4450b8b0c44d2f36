"""Odd layouts become plain columns: every pair once, in order, nothing else changed; the same bytes every time."""

import csv
import gzip
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz_cases import an_encrypted_zip
from isogloss.corpora.catalogue.repack import repack
from isogloss.errors import DataError
from parallel import put

WORDS = st.text(st.sampled_from("abc äß'\"\\,;"), min_size=1, max_size=10)


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]]


def archive(path: Path, **members: list[list[str]]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("scb/README.md", "read me")
        for name, rows in members.items():
            text = io.StringIO(newline="")
            csv.writer(text).writerows(rows)
            packed.writestr(f"scb/{name}.csv", "\ufeff" + text.getvalue())
        packed.writestr("__MACOSX/scb/._x.csv", b"\0\5")
    return path


@given(st.lists(st.tuples(st.floats(1, 1.3), WORDS, WORDS), max_size=15), st.none() | st.floats(1, 1.3))
def test_scored_pairs_keep_their_score_and_those_below_the_limit_go(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[float, str, str]], limit: float | None
) -> None:
    folder = tmp_path_factory.mktemp("scored")
    original = folder / "x.tsv.gz"
    original.write_bytes(gzip.compress("".join(f"{score}\t{one}\t{other}\n" for score, one, other in pairs).encode()))
    kept = [[one.strip(), other.strip(), str(score)] for score, one, other in pairs if limit is None or score >= limit]
    assert repack("scored", original, folder / "out.gz", ("de", "en"), limit) == len(kept)
    assert lines(folder / "out.gz") == [["de", "en", "score"], *kept]


def test_breaks_inside_a_sentence_do_not_break_the_line(tmp_path: Path) -> None:
    original = archive(
        tmp_path / "x.zip",
        b=[["en_text", "th_text"], ['one,\n"two"\tthree', "หนึ่ง"]],
        a=[["id", "th", "en"], ["7", "ขอ\u2028ขอ", "please"], ["8"]],
    )
    assert repack("csv in zip", original, tmp_path / "out.gz", ("en", "th"), None) == 2
    assert lines(tmp_path / "out.gz") == [["en", "th"], ["please", "ขอ ขอ"], ['one, "two" three', "หนึ่ง"]]


def test_the_same_input_makes_the_same_bytes(tmp_path: Path) -> None:
    original = archive(tmp_path / "x.zip", a=[["en_text", "th_text"], ["a", "b"]])
    for out in ("one.gz", "two.gz"):
        repack("csv in zip", original, tmp_path / out, ("en", "th"), None)
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


def test_what_is_laid_out_otherwise_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    other = archive(tmp_path / "x.zip", a=[["english", "thai"], ["a", "b"]])
    with pytest.raises(DataError, match="no columns for en and th in english, thai"):
        repack("csv in zip", other, out, ("en", "th"), None)
    with pytest.raises(DataError, match="no CSV file"):
        repack("csv in zip", archive(tmp_path / "y.zip"), out, ("en", "th"), None)
    two = tmp_path / "two.gz"
    two.write_bytes(gzip.compress(b"1.2\ta\tb\na\tb\n"))
    with pytest.raises(DataError, match="line 2: not a score and two sentences"):
        repack("scored", two, out, ("de", "en"), 1.05)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as packed:
        packed.writestr("huge.csv", "en,th\n" + "a" * (csv.field_size_limit() + 1) + ",b\n")
    with pytest.raises(DataError, match=r"huge.csv line 2: not CSV"):
        repack("csv in zip", tmp_path / "z.zip", out, ("en", "th"), None)
    locked = put(tmp_path / "locked.zip", an_encrypted_zip().replace(b"X.de-en.de", b"X.deen.csv"))
    with pytest.raises(DataError, match=r"locked.zip:X.deen.csv: cannot be read \(.*password required"):
        repack("csv in zip", locked, out, ("en", "th"), None)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress("".join(f"1.1\t{n * 7919}\tb\n" for n in range(999)).encode())[:-20])
    with pytest.raises(DataError, match="cut short after line 996"):
        repack("scored", cut, out, ("de", "en"), 1.05)


@given(st.integers(0, 3000))
def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path_factory: pytest.TempPathFactory, before: int) -> None:
    folder = tmp_path_factory.mktemp("latin")
    scored, tables = folder / "x.tsv.gz", folder / "x.zip"
    scored.write_bytes(gzip.compress(b"1.1\tgut\tgood\n" * before + b"1.1\tsch\xf6n\tnice\n1.1\ta\tb\n"))
    with pytest.raises(DataError, match=rf"x.tsv.gz line {before + 1}: not UTF-8"):
        repack("scored", scored, folder / "out.gz", ("de", "en"), 1.05)
    with zipfile.ZipFile(tables, "w") as packed:
        packed.writestr("a.csv", b"en,th\n" + b"good,gut\n" * before + b"nice,sch\xf6n\na,b\n")
    with pytest.raises(DataError, match=rf"x.zip:a.csv line {before + 2}: not UTF-8"):
        repack("csv in zip", tables, folder / "out.gz", ("en", "th"), None)


def test_a_header_that_is_no_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("a.csv", b"en,th,\xff\na,b,c\n")
    with pytest.raises(DataError, match=r"a.csv line 1: not UTF-8"):
        repack("csv in zip", tmp_path / "x.zip", tmp_path / "out.gz", ("en", "th"), None)

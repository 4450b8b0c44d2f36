"""Packed files: whole ones come back byte for byte, damaged ones never pass for whole."""

import bz2
import gzip
import io
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.reading.compression import is_archive, members, open_stream, unpacked_name
from isogloss.errors import DataError
from parallel import PACK, few, packings, put

PACKED = [suffix for suffix in PACK if suffix]
LINES = b"".join(b"line %d of some text\n" % number for number in range(20_000))


def unpacked(path: Path, piece: int = 2**20, member: str = "") -> bytes:
    with open_stream(path, member) as stream:
        return b"".join(iter(lambda: stream.read(piece), b""))


@packings
@few
@given(data=st.binary(max_size=300), times=st.sampled_from([1, 1000]), piece=st.sampled_from([1000, 70_000]))
def test_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, packing: str, data: bytes, times: int, piece: int) -> None:
    path = put(tmp_path_factory.mktemp("x") / "x", data * times, packing)
    with open_stream(path) as stream:
        pieces = list(iter(lambda: stream.read(piece), b""))
    assert b"".join(pieces) == data * times
    assert all(len(one) == piece for one in pieces[:-1])


@pytest.mark.parametrize("packing", PACKED)
def test_several_members_are_one_file(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"x{packing}"
    path.write_bytes(PACK[packing](b"one\n") + PACK[packing](b"") + PACK[packing](b"two\n"))
    assert unpacked(path) == b"one\ntwo\n"
    for rest in (b"garbage", PACK[packing](b"two")[1:], PACK[packing](b"two")[:3]):
        path.write_bytes(PACK[packing](b"one\n") + rest)
        with pytest.raises(DataError, match=r"the compressed file is (damaged|cut short)"):
            unpacked(path)


@pytest.mark.parametrize("packing", PACKED)
def test_a_cut_file_of_few_lines_says_the_last_whole_one(tmp_path: Path, packing: str) -> None:
    drawn = np.random.default_rng(3).integers(ord("a"), ord("z"), (400, 60), dtype=np.uint8)  # nothing to be packed away
    lines = b"".join(bytes(row) + b"\n" for row in drawn)
    whole = PACK[packing](lines)
    path = tmp_path / f"x{packing}"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(DataError, match="the compressed file is cut short") as caught:
        unpacked(path)
    if packing in (".gz", ".xz"):  # the others unpack whole blocks, and this is one
        assert 290 < int(caught.value.message.split("after line ")[1]) < 310
    else:
        assert "after line" not in caught.value.message


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_cut_file_raises_and_says_after_which_line(tmp_path: Path, packing: str, kept: float) -> None:
    whole = PACK[packing](LINES)
    path = tmp_path / f"x{packing}"
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(DataError, match="the compressed file is cut short") as caught:
        unpacked(path)
    if kept > 0.8 and packing == ".gz":
        assert int(caught.value.message.split("after line ")[1].replace(",", "")) > 5_000


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz"])  # zstd as Arrow writes it has no checksum
@few
@given(place=st.floats(0.05, 0.95), value=st.integers(1, 255))
def test_a_changed_byte_raises(tmp_path_factory: pytest.TempPathFactory, packing: str, place: float, value: int) -> None:
    data = bytearray(PACK[packing](LINES[:3000]))
    data[int(place * len(data))] ^= value
    path = tmp_path_factory.mktemp("x") / f"x{packing}"
    path.write_bytes(data)
    try:
        found = unpacked(path)
    except DataError:
        return
    assert found == LINES[:3000]  # a byte that means nothing, such as the time in gzip's header


@pytest.mark.parametrize("packing", list(PACK))
def test_standard_input_may_be_packed_and_stays_open(monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    raw = io.BytesIO(PACK[packing](b"one\ntwo\n"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
    assert unpacked(Path("-")) == b"one\ntwo\n"
    assert not raw.closed


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, tmp_path / ("x" * 5000), Path("nul\0"), tmp_path / "none.gz"):
        with pytest.raises(DataError):
            unpacked(path)


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("b/two.txt.gz", gzip.compress(b"two"))
        archive.writestr("one.txt", b"one" * 1000)
        archive.mkdir("empty") if hasattr(archive, "mkdir") else None
    assert members(path) == ["b/two.txt.gz", "one.txt"]
    assert (unpacked(path, member="one.txt"), unpacked(path, member="b/two.txt.gz")) == (b"one" * 1000, b"two")
    broken = path.read_bytes().replace(b"oneone", b"onxone", 1)
    path.write_bytes(broken)
    with pytest.raises(DataError, match=r"x\.zip:one\.txt: the compressed file is damaged"):
        unpacked(path, member="one.txt")
    for data in (b"", b"PK\x03\x04", broken[: len(broken) // 2]):
        path.write_bytes(data)
        with pytest.raises(DataError, match="the archive is damaged"):
            members(path)
    for name in ("x.tar", "x.tar.gz", "x.tgz", "x.tar.zst"):
        (tmp_path / name).write_bytes(b"nothing of the kind" * 100)
        with pytest.raises(DataError, match="damaged"):
            members(tmp_path / name)


def test_a_member_without_a_name_is_not_the_archive_itself(tmp_path: Path) -> None:
    """Python 3.11 takes it for damage; later ones list it, and looking into it would never end."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("q", b"one")
        archive.writestr("en-de.tsv", b"one\teins\n")
    data = (tmp_path / "x.zip").read_bytes()
    name = bytes([1, 0])  # its length, in both headers
    local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
    assert data[local + 26 : local + 28] == name == data[central + 28 : central + 30]
    cut = bytearray(data)
    cut[central + 28 : central + 30] = bytes(2)
    del cut[central + 46]  # the name itself; the directory is a byte shorter then
    end = cut.index(b"PK\x05\x06")
    cut[end + 12 : end + 16] = (int.from_bytes(cut[end + 12 : end + 16], "little") - 1).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(cut)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert [one.filename for one in archive.infolist()] == ["", "en-de.tsv"]
    assert members(tmp_path / "x.zip") == ["en-de.tsv"]


def test_names() -> None:
    assert unpacked_name("x.tsv.GZ") == ("x.tsv", ".GZ".lower()) and unpacked_name("x.tgz") == ("x.tar", ".gz")
    assert unpacked_name("x.gz.tsv") == ("x.gz.tsv", "")
    assert is_archive("a.ZIP") and is_archive("a.tar.xz") and is_archive("a.txz") and not is_archive("a.tsv.xz")
    assert bz2.decompress(PACK[".bz2"](b"x")) == b"x"

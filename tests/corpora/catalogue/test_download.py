"""Bytes into files: resumed, checked, waited for, and what was there before is never harmed."""

import bz2
import errno
import gzip
import io
import lzma
import os
import socket
import threading
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora.catalogue.service import Fault, Service
from fuzz_cases import an_encrypted_zip
from isogloss.corpora.catalogue.download import fetch, kept
from isogloss.corpora.catalogue.retries import NotFound, Patience
from isogloss.corpora.reading.origin import Origin, origin_of
from isogloss.errors import DataError, IsoglossError
from isogloss.progress import Step
from isogloss.storage import file_hash
from isogloss.web import user_agent

TEXT = bytes(range(256)) * 4000  # about a megabyte
ORIGIN = Origin(corpus="Some", version="v1", license="CC0")


def zipped(**members: str) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return memory.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != "cache")


def test_a_file_is_fetched_with_its_note_of_descent(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT, etag='"v1"')
    steps: list[Step] = []
    path = fetch(url, tmp_path / "deep" / "some.bin", origin=ORIGIN, on_progress=steps.append, patience=patience)
    assert path.read_bytes() == TEXT
    assert names(path.parent) == ["some.bin", "some.bin.origin.json"]
    assert origin_of(path) == replace(ORIGIN, url=url, sha256=file_hash(path), etag='"v1"', size=len(TEXT))
    assert [one.headers["user-agent"] for one in service.asked] == [user_agent()]
    assert user_agent().startswith("isogloss/")
    assert steps[-1].finished and not any(step.finished for step in steps[:-1])


def test_a_cut_connection_goes_on_where_it_stopped(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT, etag='"v1"')
    service.faults["/some.bin"] = [Fault(cut_after=300_000), Fault(cut_after=5)]
    path = fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert path.read_bytes() == TEXT
    assert [(one.headers.get("range"), one.headers.get("if-range")) for one in service.asked] == [
        (None, None),
        ("bytes=300000-", '"v1"'),
        ("bytes=300005-", '"v1"'),
    ]
    assert names(tmp_path) == ["some.bin", "some.bin.origin.json"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5), ranges=st.booleans())
def test_however_it_is_cut_the_bytes_are_the_same(
    service: Service, tmp_path_factory: pytest.TempPathFactory, content: bytes, cuts: list[int], ranges: bool
) -> None:
    url = service.serve("/some.bin", content, ranges=ranges)
    service.faults["/some.bin"] = [Fault(cut_after=cut) for cut in cuts]
    folder = tmp_path_factory.mktemp("cut")
    path = fetch(url, folder / "some.bin", origin=ORIGIN, patience=Patience(attempts=9, wait=lambda _: None))
    assert path.read_bytes() == content
    service.faults.clear()


def interrupted(service: Service, target: Path, after: int) -> None:
    """An earlier run that was stopped: its part stays."""
    service.faults["/some.bin"] = [Fault(cut_after=after)]
    with pytest.raises(DataError):
        fetch(service.url + "/some.bin", target, origin=ORIGIN, patience=Patience(attempts=1))
    service.asked.clear()


def test_a_later_run_goes_on_where_an_earlier_one_was_killed(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT, etag="", last_modified="Wed, 21 Oct 2015 07:28:00 GMT")
    interrupted(service, tmp_path / "some.bin", 1000)
    assert names(tmp_path) == ["some.bin.part", "some.bin.part.origin.json"]
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert service.asked[0].headers["range"] == "bytes=1000-"
    assert service.asked[0].headers["if-range"] == "Wed, 21 Oct 2015 07:28:00 GMT"


def test_two_versions_are_never_mixed(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT)
    interrupted(service, tmp_path / "some.bin", 1000)
    service.serve("/some.bin", TEXT[::-1])
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT[::-1]


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_without_a_name_for_the_version_it_begins_again(
    service: Service, tmp_path: Path, patience: Patience, etag: str
) -> None:
    url = service.serve("/some.bin", TEXT, etag=etag)
    interrupted(service, tmp_path / "some.bin", 1000)
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert [one.headers.get("range") for one in service.asked] == [None]


def test_a_part_that_is_already_whole_is_taken(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT)
    interrupted(service, tmp_path / "some.bin", 1000)
    (tmp_path / "some.bin.part").write_bytes(TEXT)
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert [one.headers.get("range") for one in service.asked] == [f"bytes={len(TEXT)}-"]


def test_a_part_that_was_damaged_costs_a_fresh_start(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT)
    (tmp_path / "whole").write_bytes(TEXT)
    interrupted(service, tmp_path / "some.bin", 1000)
    (tmp_path / "some.bin.part").write_bytes(b"x" * 1000)
    path = fetch(url, tmp_path / "some.bin", sha256=file_hash(tmp_path / "whole"), origin=ORIGIN, patience=patience)
    assert path.read_bytes() == TEXT
    assert [one.headers.get("range") for one in service.asked] == ["bytes=1000-", None]


def test_a_file_of_unknown_length(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT, says_length=False)
    steps: list[Step] = []
    assert fetch(url, tmp_path / "some.bin", on_progress=steps.append, origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert [step.finished for step in steps].index(True) == len(steps) - 1


@pytest.mark.parametrize(("status", "words"), [(404, "404"), (410, "410"), (403, "restricted"), (401, "401"), (400, "400")])
def test_a_refusal_is_not_argued_with(
    service: Service, tmp_path: Path, patience: Patience, waits: list[float], status: int, words: str
) -> None:
    service.faults["/some.bin"] = [Fault(status)]
    with pytest.raises(DataError) as caught:
        fetch(service.url + "/some.bin", tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert words in caught.value.message + caught.value.hint
    assert isinstance(caught.value, NotFound) == (status in (404, 410))
    assert len(service.asked) == 1 and not waits
    assert names(tmp_path) == []


def test_a_busy_server_says_how_long_to_wait(service: Service, tmp_path: Path, patience: Patience, waits: list[float]) -> None:
    url = service.serve("/some.bin", TEXT)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    service.faults["/some.bin"] = [Fault(429, {"Retry-After": "7"}), Fault(503, {"Retry-After": soon})]
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert waits[0] == 7
    assert 30 < waits[1] <= 40


def test_a_wait_that_is_too_long_is_told(service: Service, tmp_path: Path, patience: Patience, waits: list[float]) -> None:
    service.faults["/some.bin"] = [Fault(429, {"Retry-After": "7200"})]
    with pytest.raises(DataError, match="come back in 2 h"):
        fetch(service.url + "/some.bin", tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert not waits


def test_errors_of_the_server_are_tried_again_with_longer_waits(
    service: Service, tmp_path: Path, patience: Patience, waits: list[float]
) -> None:
    url = service.serve("/some.bin", TEXT)
    service.faults["/some.bin"] = [Fault(500), Fault(502), Fault(504), Fault(503, {"Retry-After": "soon"})]
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert len(waits) == 4
    assert all(longest / 2 <= wait <= longest for wait, longest in zip(waits, (1, 2, 4, 8), strict=True))


def test_patience_ends(service: Service, tmp_path: Path, patience: Patience, waits: list[float]) -> None:
    url = service.serve("/some.bin", TEXT)
    service.faults["/some.bin"] = [Fault(500)] * 99
    with pytest.raises(DataError, match=r"500 .* \(tried 6 times\)") as caught:
        fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert "continues" in caught.value.hint
    assert len(service.asked) == 6 and len(waits) == 5


def test_progress_begins_the_count_anew_and_standing_still_does_not(
    service: Service, tmp_path: Path, patience: Patience
) -> None:
    url = service.serve("/some.bin", TEXT)
    service.faults["/some.bin"] = [Fault(cut_after=10)] * 20
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    service.serve("/some.bin", TEXT, ranges=False)
    service.faults["/some.bin"] = [Fault(cut_after=10)] * 20
    with pytest.raises(DataError, match=r"cut after 10 of 1,024,000 bytes"):
        fetch(url, tmp_path / "other.bin", origin=ORIGIN, patience=patience)


def test_nobody_there_is_said_soon(tmp_path: Path, patience: Patience, waits: list[float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/some.bin"
    with pytest.raises(DataError, match=r"127.0.0.1 cannot be reached .* \(tried 3 times\)"):
        fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert len(waits) == 2


def test_only_the_web_is_fetched_from(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match="not a web address"):
        fetch((tmp_path / "secret").as_uri(), tmp_path / "copy", ORIGIN)


WHOLE = zipped(**{"a.en": "good morning\n" * 500, "a.de": "guten Morgen\n" * 500})
FLIPPED = bytearray(WHOLE)
FLIPPED[60] ^= 0xFF


@pytest.mark.parametrize(
    ("name", "content", "known", "words"),
    [
        ("some.zip", WHOLE[:-30], {}, "not a whole zip archive"),
        ("some.zip", WHOLE[: len(WHOLE) // 2], {}, "not a whole zip archive"),
        ("some.zip", bytes(FLIPPED), {}, "zip archive"),
        ("some.zip", b"", {}, "not a whole zip archive"),
        ("some.zip", an_encrypted_zip(), {}, "not a whole zip archive .*password required"),
        ("some.bin", TEXT, {"sha256": "0" * 64}, "the checksum is .* but it should be 000000000000"),
        ("some.bin", TEXT, {"size": 5}, "1,024,000 bytes long, but it should be 5"),
        ("some.tsv.gz", b"<p>Please log in</p>", {}, "not a whole gzip file"),
        ("some.parquet", b"PAR1" + TEXT, {}, "not a whole Parquet file"),
        ("some.parquet", b"PA", {}, "not a whole Parquet file"),
    ],
)
def test_what_is_damaged_never_gets_its_name(
    service: Service, tmp_path: Path, patience: Patience, name: str, content: bytes, known: dict[str, object], words: str
) -> None:
    good = WHOLE if name.endswith("zip") else gzip.compress(TEXT) if name.endswith("gz") else b"PAR1"
    before = fetch(service.serve("/old", good), tmp_path / name, origin=ORIGIN, patience=patience)
    url = service.serve(f"/{name}", content)
    with pytest.raises(DataError, match=words):
        fetch(url, tmp_path / name, origin=ORIGIN, patience=patience, **known)  # type: ignore[arg-type]
    assert kept(before) and before.read_bytes() == good
    assert names(tmp_path) == [name, f"{name}.origin.json"]


def zstandard(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        ("gz", gzip.compress(TEXT[:5000]) + gzip.compress(TEXT)),
        ("bz2", bz2.compress(TEXT)),
        ("xz", lzma.compress(TEXT)),
        ("zst", zstandard(TEXT)),
    ],
)
@pytest.mark.parametrize("missing", [1, 9, 200])
def test_a_packed_file_of_unknown_length_is_read_to_its_end(
    service: Service, tmp_path: Path, patience: Patience, kind: str, packed: bytes, missing: int
) -> None:
    url = service.serve(f"/some.{kind}", packed, says_length=False)
    service.faults[f"/some.{kind}"] = [Fault(cut_after=len(packed) - missing)]
    with pytest.raises(DataError, match="not a whole"):
        fetch(url, tmp_path / f"some.{kind}", origin=ORIGIN, patience=patience)
    assert names(tmp_path) == []
    assert fetch(url, tmp_path / f"some.{kind}", origin=ORIGIN, patience=patience).read_bytes() == packed


def test_a_web_page_is_not_a_corpus(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/en-de.txt", b"<html>Log in to the hotel's network</html>", content_type="text/html; charset=utf-8")
    with pytest.raises(DataError, match="a web page"):
        fetch(url, tmp_path / "en-de.txt", origin=ORIGIN, patience=patience)
    assert names(tmp_path) == []


def test_a_short_length_header_is_found_out(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT, says_length=False)
    with pytest.raises(DataError, match=r"1,024,000 bytes arrived, but it should be 1,024,001"):
        fetch(url, tmp_path / "some.bin", size=len(TEXT) + 1, origin=ORIGIN, patience=patience)


def test_what_kept_is_not_fetched_again(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT)
    path = fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    steps: list[Step] = []
    fetch(url, path, origin=ORIGIN, size=len(TEXT), sha256=file_hash(path), on_progress=steps.append, patience=patience)
    assert len(service.asked) == 1
    assert steps[-1].note == "reused from the cache" and steps[-1].finished
    path.write_bytes(b"damaged")
    fetch(url, path, origin=ORIGIN, patience=patience)
    assert len(service.asked) == 2 and path.read_bytes() == TEXT


def test_another_version_under_the_same_name_is_fetched(service: Service, tmp_path: Path, patience: Patience) -> None:
    path = fetch(service.serve("/v1/some.bin", b"old"), tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    fetch(service.serve("/v2/some.bin", b"new"), path, origin=ORIGIN, patience=patience)
    assert path.read_bytes() == b"new" and kept(path)


def test_a_file_of_ones_own_is_never_replaced(service: Service, tmp_path: Path, patience: Patience) -> None:
    (tmp_path / "some.bin").write_text("mine")
    with pytest.raises(DataError, match="not fetched by isogloss"):
        fetch(service.serve("/some.bin", TEXT), tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    assert (tmp_path / "some.bin").read_text() == "mine" and not service.asked
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsoglossError, match="is a folder"):
        fetch(service.serve("/some.bin", TEXT), tmp_path / "folder", origin=ORIGIN, patience=patience)


def test_a_full_disk_is_one_sentence_and_the_old_file_stays(
    service: Service, tmp_path: Path, patience: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetch(service.serve("/some.bin", b"old"), tmp_path / "some.bin", origin=ORIGIN, patience=patience)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IsoglossError, match="cannot be written"):
        fetch(service.serve("/new.bin", TEXT), path, origin=ORIGIN, patience=patience)
    assert path.read_bytes() == b"old" and kept(path)


def test_two_who_want_the_same_file_fetch_it_once(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT)
    begun, release, waiting = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(5)

    def note(step: Step) -> None:
        if "waiting" in step.note:
            waiting.set()
            release.set()

    service.faults["/some.bin"] = [Fault(before=hold)]
    first = threading.Thread(target=fetch, args=(url, tmp_path / "some.bin"), kwargs={"origin": ORIGIN, "patience": patience})
    first.start()
    assert begun.wait(5)
    fetch(url, tmp_path / "some.bin", origin=ORIGIN, on_progress=note, patience=patience)
    first.join()
    assert waiting.is_set() and len(service.asked) == 1


@pytest.mark.parametrize("status", [304, 416])
def test_an_answer_to_what_was_not_asked(service: Service, tmp_path: Path, patience: Patience, status: int) -> None:
    service.faults["/some.bin"] = [Fault(status)] * 9
    with pytest.raises(DataError, match=f"the server answers {status}"):
        fetch(service.url + "/some.bin", tmp_path / "some.bin", origin=ORIGIN, patience=patience)


def test_headers_that_are_no_numbers_or_dates(service: Service, tmp_path: Path, patience: Patience, waits: list[float]) -> None:
    url = service.serve("/some.bin", TEXT)
    odd = ("\xb2", "9" * 5000, "Mon, 99 Jan 0001 00:00:00 -0000", "Fri, 31 Dec 0001 23:59:59 +2359")
    service.faults["/some.bin"] = [Fault(503, {"Retry-After": told}) for told in odd]
    assert fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience).read_bytes() == TEXT
    assert len(waits) == 4


def test_keys_in_addresses_are_in_no_note(service: Service, tmp_path: Path, patience: Patience) -> None:
    url = service.serve("/some.bin", TEXT) + "?token=SECRET"
    path = fetch(url, tmp_path / "some.bin", origin=ORIGIN, patience=patience)
    written = [file for file in tmp_path.rglob("*.json") if file.is_file()]
    assert len(written) == 1 and not any("SECRET" in file.read_text() for file in written)
    known = origin_of(path)
    assert known is not None and known.url.endswith("?token=***")
    fetch(url, path, origin=ORIGIN, patience=patience)
    assert len(service.asked) == 1, "it is still known as the same file"
    service.faults["/gone"] = [Fault(404)]
    with pytest.raises(DataError, match=r"token=\*\*\*: the server answers 404"):
        fetch(f"{service.url}/gone?token=SECRET", tmp_path / "x", origin=ORIGIN, patience=patience)

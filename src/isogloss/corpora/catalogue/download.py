"""Download a URL to a file: resumed after interruptions, checked before it gets its name, fetched once.

Bytes go to `NAME.part`. `NAME.part.json` has the version of the remote file, so a later run resumes only if it has not changed.
An existing `NAME` is only replaced by a checked file.
"""

import http.client
import logging
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from isogloss.amounts import amount, duration
from isogloss.corpora.catalogue.freshness import Remote, forget, is_unchanged, recall, remember
from isogloss.corpora.catalogue.retries import NothingLeft, Patience, Tries, Trouble, open_url, read_some
from isogloss.corpora.reading.origin import Origin, origin_of
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent
from isogloss.shapes import TEXT, check
from isogloss.shown import masked
from isogloss.storage import (
    cache_folder,
    content_hash,
    explaining_disk,
    file_hash,
    make_folder,
    read_json,
    refuse_folder,
    write_json,
)
from isogloss.web import whole_number

logger = logging.getLogger(__name__)

NOTE = {"url": TEXT, "etag": TEXT, "modified": TEXT}
PIECE = 2**20
MANY_BYTES = 10 * 10**6  # progress counts MB from here on, kB below
_PACKED = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "Zstandard"}
DAMAGED = "try again later; if that does not help, the file is damaged on the server"


def fetch(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    origin: Origin | None = None,
    token: str = "",
    refresh: bool = False,
    stage: str = "",
    on_progress: OnProgress = silent,
    patience: Patience | None = None,
) -> Path:
    """Download `url` to `target`, unless it is there already; with `refresh`, unless it is also unchanged on the server.

    With an `origin`, an origin file is written beside it, and its checksum decides whether an existing file is the one that
    was fetched. Without one (an intermediate file), an existing file is used as it is.
    """
    meter, patience = _Meter(stage or target.name, on_progress), patience or Patience()
    refuse_folder(target)
    make_folder(target.parent)
    with alone(target, lambda: meter.note("another isogloss is fetching it; waiting")):
        here = _is_here(target, url, size, sha256) if origin is not None else target.is_file()
        if here and (not refresh or _is_current(target, url, token, patience)):
            meter.show(target.stat().st_size, target.stat().st_size, "reused from the cache")
            return target
        if origin is not None:  # an intermediate file has a name of ours
            refuse_foreign(target)
        part = _Part(target, url)
        _fill(part, size, sha256, token, meter, patience)
        remote = part.remote()
        forget(target)
        if origin is not None:  # before the rename: an origin without its file is harmless
            replace(origin, url=masked(url), sha256=sha256 or file_hash(part.path)).write_beside(target)
        part.becomes(target)
        remember(target, url, remote)
    return target


def is_kept(target: Path, size: int | None = None, sha256: str | None = None) -> bool:
    """Whether the file is there and has the checksum of its origin file."""
    known = origin_of(target)
    if known is None or not known.sha256 or not target.is_file():
        return False
    if (sha256 is not None and sha256 != known.sha256) or (size is not None and size != target.stat().st_size):
        return False
    return file_hash(target) == known.sha256


def _is_here(target: Path, url: str, size: int | None, sha256: str | None) -> bool:
    """Whether the file of this URL is kept; another version may have the same name in the user's folder."""
    known = origin_of(target)
    return known is not None and (known.url == masked(url) or known.sha256 == sha256) and is_kept(target, size, sha256)


def _is_current(target: Path, url: str, token: str, patience: Patience) -> bool:
    """Whether the server still has this file; by its length if nothing else is known."""
    known = recall(target, url) or Remote(size=target.stat().st_size)
    return is_unchanged(url, known, patience, token)


def refuse_foreign(target: Path) -> None:
    """Refuse to replace a file that isogloss did not fetch."""
    if target.exists() and origin_of(target) is None:
        raise DataError(f"{target}: exists, and was not fetched by isogloss", hint="move it away, or fetch into another folder")


class _Damaged(Exception):
    """The downloaded bytes are not the file."""


class _Meter:
    """Reports progress in MB (or kB, for small files)."""

    def __init__(self, stage: str, on_progress: OnProgress) -> None:
        self.stage = stage
        self.on_progress = on_progress
        self.done, self.total = 0, 0

    def show(self, done: int, total: int | None, note: str = "") -> None:
        """Report `done` of `total` bytes; without a total, the end is always a little further on."""
        known = total if total is not None else done + PIECE
        unit, name = (10**6, "MB") if known >= MANY_BYTES else (1000, "kB")
        self.total = max(1, math.ceil(known / unit))
        self.done = self.total if total is not None and done >= total else min(done // unit, self.total - 1)
        self.on_progress(Step(self.stage, self.done, self.total, name, note))

    def note(self, text: str) -> None:
        """Show a note beside the bar."""
        self.on_progress(Step(self.stage, self.done, max(self.total, self.done + 1), "", text))


class _Part:
    """The bytes downloaded so far."""

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(target.name + ".part")
        self.notes = target.with_name(target.name + ".part.json")
        self.url = url

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def remote(self) -> Remote:
        """The version of the remote file that the bytes belong to, as far as it is known."""
        try:
            known = check(read_json(self.notes), NOTE)
        except (OSError, ValueError):
            known = {"url": None}
        if known["url"] != masked(self.url):
            return Remote(size=self.length)
        return Remote(known["etag"], known["modified"], self.length)

    def begin(self, remote: Remote) -> None:
        """Start over with a version of the remote file."""
        self.discard()
        write_json(self.notes, {"url": masked(self.url), "etag": remote.etag, "modified": remote.modified})

    def discard(self) -> None:
        """Remove the bytes."""
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def becomes(self, target: Path) -> None:
        """Rename to the final name."""
        with explaining_disk(target):
            self.path.replace(target)
        self.notes.unlink(missing_ok=True)


class _Arrival(NamedTuple):
    """What is known about a transfer."""

    resumed: bool  # some bytes were here before
    counted: bool  # the server gave a length, and all bytes arrived


def _fill(part: _Part, size: int | None, sha256: str | None, token: str, meter: _Meter, patience: Patience) -> None:
    tries = Tries(part.url, patience)
    furthest = part.length
    while True:
        arrival = _Arrival(resumed=False, counted=False)
        try:
            arrival = _transfer(part, size, token, meter, patience.timeout)
            meter.note("checking")
            _check(part.path, size, sha256, arrival.counted)
            meter.show(part.length, part.length)
            return
        except Trouble as trouble:
            if part.length > furthest:
                furthest = part.length
                tries.succeeded()
            pause = tries.failed(trouble)
            logger.info("%s: %s; again in %s", part.url, trouble, duration(pause))
            meter.note(f"{trouble.brief}, again in {duration(pause)}")
            patience.wait(pause)
        except _Damaged as damage:
            part.discard()
            if not arrival.resumed:  # a resumed file gets a second chance from the start
                raise DataError(f"{part.url}: {damage}", hint=DAMAGED) from damage


def _transfer(part: _Part, size: int | None, token: str, meter: _Meter, timeout: float) -> _Arrival:
    """Download the missing bytes."""
    start, validator = part.length, part.remote().validator
    if not (start and validator):
        start = 0
    asked = {"Range": f"bytes={start}-", "If-Range": validator} if start else {}
    try:
        response = open_url(part.url, timeout, asked, token)
    except NothingLeft as nothing:
        if nothing.total != start:
            part.discard()
            raise Trouble("the server did not continue the file") from nothing
        return _Arrival(resumed=True, counted=True)  # all bytes were here already
    with response:
        place, total = _place(response)
        if place not in (0, start):
            part.discard()
            raise Trouble("the server continued at the wrong position")
        start = place
        if size is not None and total is not None and total != size:
            raise _Damaged(f"{amount(total, 'byte')} long, but it should be {size:,}")
        if response.headers.get_content_type() == "text/html":
            raise _Damaged("the server sent a web page, not the file")
        if not start:
            part.begin(Remote.of(response))
        _pour(response, part, start, total, meter)
    if total is not None and part.length < total:
        raise Trouble(f"the connection was cut after {part.length:,} of {amount(total, 'byte')}")
    return _Arrival(resumed=start > 0, counted=total is not None)


def _place(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the response begins in the file, and the length of the file. A server may ignore ranges."""
    if response.status == http.client.PARTIAL_CONTENT:
        span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        begins = span.partition("-")[0]
        start = whole_number(begins)
        return -1 if start is None else start, whole_number(total)
    return 0, whole_number(response.headers.get("Content-Length"))


def _pour(response: http.client.HTTPResponse, part: _Part, done: int, total: int | None, meter: _Meter) -> None:
    with explaining_disk(part.path):
        handle = part.path.open("ab")
    with handle:
        meter.show(done, total)
        while piece := read_some(response, PIECE):
            with explaining_disk(part.path):
                handle.write(piece)
            done += len(piece)
            meter.show(min(done, total - 1) if total else done, total)  # finished only after the check
        with explaining_disk(part.path):
            handle.flush()
            os.fsync(handle.fileno())


def _check(path: Path, size: int | None, sha256: str | None, counted: bool) -> None:
    """Check length and checksum if known, otherwise what the format allows.

    A compressed file of unknown length is read to its end, to detect a cut connection.
    """
    length = path.stat().st_size
    if size is not None and length != size:
        raise _Damaged(f"{amount(length, 'byte')} arrived, but it should be {size:,}")
    if sha256 is not None and (found := file_hash(path)) != sha256:
        raise _Damaged(f"the checksum is {found[:12]}…, but it should be {sha256[:12]}…")
    kind = path.name.removesuffix(".part").rpartition(".")[2]
    with path.open("rb") as handle:
        opening = handle.read(4)
    if kind == "gz" and opening[:2] != b"\x1f\x8b":
        raise _Damaged("not a gzip file")
    if kind == "parquet" and not (opening == b"PAR1" and _ends_with(path, b"PAR1")):
        raise _Damaged("not a whole Parquet file")
    if kind == "zip" and sha256 is None:
        _check_zip(path)
    if kind in _PACKED and size is None and sha256 is None and not counted:
        _check_packed(path, kind)


def _check_packed(path: Path, kind: str) -> None:
    from isogloss.corpora.reading.compression import open_file  # lazily: imports Arrow

    try:
        with open_file(path, f".{kind}") as stream:
            while stream.read(PIECE):
                pass
    except DataError as error:
        raise _Damaged(f"not a whole {_PACKED[kind]} file") from error


def _check_zip(path: Path) -> None:
    from isogloss.corpora.reading.compression import ARCHIVE_FAULTS

    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (*ARCHIVE_FAULTS, OSError) as error:
        raise _Damaged(f"not a whole zip archive ({error})") from error
    if broken is not None:
        raise _Damaged(f"{broken} in the zip archive is damaged")


def _ends_with(path: Path, ending: bytes) -> bool:
    with path.open("rb") as handle:
        handle.seek(-min(len(ending), path.stat().st_size), os.SEEK_END)
        return handle.read() == ending


@contextmanager
def alone(target: Path, on_waiting: Callable[[], None]) -> Iterator[None]:
    """Let only one process at a time fetch a file; others wait."""
    locks = cache_folder() / "locks"
    make_folder(locks)
    lock = FileLock(locks / f"{content_hash(str(target.absolute()))}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()

"""Download a URL to a file: resume after interruptions, check the file before it gets its name, download it only once.

Bytes go to `NAME.part`. Its origin file has the version of the remote file, so a later run resumes only if it has not changed.
An existing `NAME` is only replaced by a checked file.
"""

import http.client
import logging
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from isogloss.amounts import amount, duration
from isogloss.corpora.catalogue.retries import PATIENT, Patience, TemporaryFailure, open_url, read_some, retried
from isogloss.corpora.reading.origin import Origin, origin_file, origin_of
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent
from isogloss.shown import masked
from isogloss.storage import cache_folder, content_hash, explaining_disk, file_hash, make_folder, refuse_folder
from isogloss.web import whole_number

logger = logging.getLogger(__name__)

PIECE = 2**20
MANY_BYTES = 10 * 10**6  # progress counts MB from here on, kB below
_PACKED = {"zip": "zip archive", "gz": "gzip file", "bz2": "bzip2 file", "xz": "xz file", "zst": "Zstandard file"}
DAMAGED = "try again later; if that does not help, the file is damaged on the server"


def fetch(
    url: str,
    target: Path,
    origin: Origin,
    *,
    size: int | None = None,
    sha256: str | None = None,
    token: str = "",
    refresh: bool = False,
    stage: str = "",
    on_progress: OnProgress = silent,
    patience: Patience = PATIENT,
) -> Path:
    """Download `url` to `target`, unless it is there already; with `refresh`, unless it is also unchanged on the server.

    `origin` is written beside it, with the URL, the checksum and the version that the server gives.
    """
    meter = _Meter(stage or target.name, on_progress)
    refuse_folder(target)
    make_folder(target.parent)
    with download_lock(target, lambda: meter.note("another isogloss is fetching it; waiting")):
        known = kept(target, size, sha256)
        if known is not None and known.url != masked(url) and known.sha256 != sha256:
            known = None  # another version may have the same name in the user's folder
        if known is not None and not (refresh and not is_unchanged(url, known, patience, token)):
            meter.show(target.stat().st_size, target.stat().st_size, "reused from the cache")
            return target
        refuse_foreign(target)
        origin, part = replace(origin, url=masked(url)), target.with_name(target.name + ".part")
        _Download(part, url, origin, size, sha256, token, meter, patience).run()
        origin = replace(origin_of(part) or origin, sha256=sha256 or file_hash(part), size=_length(part))
        origin.write_beside(target)  # before the rename: an origin without its file is harmless
        with explaining_disk(target):
            part.replace(target)
        discard(part)
    return target


def kept(target: Path, size: int | None = None, sha256: str | None = None) -> Origin | None:
    """The origin of a file that is there and has the checksum of its origin file; None otherwise."""
    known = origin_of(target)
    if known is None or not known.sha256 or not target.is_file():
        return None
    if (sha256 is not None and sha256 != known.sha256) or (size is not None and size != target.stat().st_size):
        return None
    return known if file_hash(target) == known.sha256 else None


def is_unchanged(url: str, known: Origin, patience: Patience, token: str = "") -> bool:
    """Ask the server whether it still has the same file, with a GET whose body is not read, since some servers refuse HEAD.

    The most reliable value that both sides have decides; if there is none, it may have changed.
    """
    asked = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
    asked = {name: value for name, value in asked.items() if value}

    def request() -> bool:
        with open_url(url, patience.timeout, asked, token, expected=http.client.NOT_MODIFIED if asked else 0) as response:
            now = _version(response)
            if response.status == http.client.NOT_MODIFIED:
                return True
            for name in ("etag", "modified", "size"):
                before, after = getattr(known, name), now[name]
                if before and after:
                    return str(before).removeprefix("W/") == str(after).removeprefix("W/")
            return False

    return retried(url, patience, request)


def _version(response: http.client.HTTPResponse) -> dict[str, Any]:
    """What the server says about the version of a file, as fields of an `Origin`."""
    found = {"etag": response.headers.get("ETag", ""), "modified": response.headers.get("Last-Modified", "")}
    return {**found, "size": whole_number(response.headers.get("Content-Length"))}


def refuse_foreign(target: Path) -> None:
    """Refuse to replace a file that isogloss did not fetch. Hidden files are intermediate files of ours."""
    if target.exists() and origin_of(target) is None and not target.name.startswith("."):
        raise DataError(f"{target}: exists, and was not fetched by isogloss", hint="move it away, or fetch into another folder")


def discard(path: Path) -> None:
    """Remove a file and its origin file."""
    path.unlink(missing_ok=True)
    origin_file(path).unlink(missing_ok=True)


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


class _Damaged(Exception):
    """The downloaded bytes are not the file."""


class _Meter:
    """Reports progress in MB (or kB, for small files)."""

    def __init__(self, stage: str, on_progress: OnProgress) -> None:
        self.stage, self.on_progress = stage, on_progress
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


@dataclass(slots=True)
class _Download:
    """Brings a URL to the file `part`."""

    part: Path
    url: str
    origin: Origin
    size: int | None
    sha256: str | None
    token: str
    meter: _Meter
    patience: Patience
    resumed: bool = field(default=False, init=False)  # the last transfer continued the file

    def run(self) -> None:
        """Download and check it. A resumed file that turns out damaged gets a second chance from the start."""
        while True:
            try:
                retried(self.url, self.patience, self._transfer, self._on_wait, progress=lambda: _length(self.part))
                self.meter.note("checking")
                self._check()
                self.meter.show(_length(self.part), _length(self.part))
                return
            except _Damaged as damage:
                discard(self.part)
                if not self.resumed:
                    raise DataError(f"{self.url}: {damage}", hint=DAMAGED) from damage

    def _on_wait(self, trouble: TemporaryFailure, pause: float) -> None:
        logger.info("%s: %s; again in %s", self.url, trouble, duration(pause))
        self.meter.note(f"{trouble.brief}, again in {duration(pause)}")

    def _transfer(self) -> None:
        """Transfer the bytes that are missing."""
        self.resumed = False
        start, known = _length(self.part), origin_of(self.part)
        validator = ""  # a strong ETag, or the date
        if known is not None and known.url == self.origin.url:
            validator = known.etag if known.etag and not known.etag.startswith("W/") else known.modified
        start = start if validator else 0
        asked = {"Range": f"bytes={start}-", "If-Range": validator} if start else {}
        beyond = http.client.REQUESTED_RANGE_NOT_SATISFIABLE
        with open_url(self.url, self.patience.timeout, asked, self.token, expected=beyond if start else 0) as response:
            place, total = _content_range(response)
            if response.status == beyond and total == start:
                self.resumed = True  # all bytes were here already
                return
            if response.status == beyond or place not in (0, start):
                discard(self.part)
                raise TemporaryFailure("the server did not continue the file")
            if self.size is not None and total is not None and total != self.size:
                raise _Damaged(f"{amount(total, 'byte')} long, but it should be {self.size:,}")
            if response.headers.get_content_type() == "text/html":
                raise _Damaged("the server sent a web page, not the file")
            self.resumed = place > 0
            if not self.resumed:
                discard(self.part)
                replace(self.origin, **_version(response)).write_beside(self.part)
            self._write_body(response, place, total)
        if total is not None and _length(self.part) < total:
            raise TemporaryFailure(f"the connection was cut after {_length(self.part):,} of {amount(total, 'byte')}")

    def _write_body(self, response: http.client.HTTPResponse, done: int, total: int | None) -> None:
        with explaining_disk(self.part):
            handle = self.part.open("ab")
        with handle:
            self.meter.show(done, total)
            while piece := read_some(response, PIECE):
                with explaining_disk(self.part):
                    handle.write(piece)
                done += len(piece)
                self.meter.show(min(done, total - 1) if total else done, total)  # finished only after the check
            with explaining_disk(self.part):
                handle.flush()
                os.fsync(handle.fileno())

    def _check(self) -> None:
        """Check length and checksum if known, otherwise what the format allows: a compressed file is read to its end."""
        length = _length(self.part)
        if self.size is not None and length != self.size:
            raise _Damaged(f"{amount(length, 'byte')} arrived, but it should be {self.size:,}")
        kind = self.part.name.removesuffix(".part").rpartition(".")[2]
        if self.sha256 is not None:
            if (found := file_hash(self.part)) != self.sha256:
                raise _Damaged(f"the checksum is {found[:12]}…, but it should be {self.sha256[:12]}…")
        elif kind == "parquet":
            _check_parquet(self.part)
        elif kind in _PACKED:
            _check_readable(self.part, kind)


def _content_range(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the response begins in the file (-1: nowhere), and the length of the file. A server may ignore ranges."""
    if response.status not in (http.client.PARTIAL_CONTENT, http.client.REQUESTED_RANGE_NOT_SATISFIABLE):
        return 0, whole_number(response.headers.get("Content-Length"))
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    start = whole_number(span.partition("-")[0])
    return -1 if start is None else start, whole_number(total)


def _check_parquet(path: Path) -> None:
    with path.open("rb") as handle:
        start = handle.read(4)
        handle.seek(-min(4, _length(path)), os.SEEK_END)
        if not start == handle.read() == b"PAR1":
            raise _Damaged("not a whole Parquet file")


def _check_readable(path: Path, kind: str) -> None:
    """Read a compressed file or an archive to its end."""
    from isogloss.corpora.reading.compression import ARCHIVE_FAULTS, open_file  # lazily: imports Arrow

    try:
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                if (broken := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{broken} is damaged")
        else:
            with open_file(path, f".{kind}") as stream:
                while stream.read(PIECE):
                    pass
    except (*ARCHIVE_FAULTS, OSError, DataError) as error:
        raise _Damaged(f"not a whole {_PACKED[kind]} ({error})") from error


@contextmanager
def download_lock(target: Path, on_waiting: Callable[[], None]) -> Iterator[None]:
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

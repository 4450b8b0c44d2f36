"""Decompress files: .gz .xz .zst .bz2, members of .zip and .tar, standard input.

A truncated or damaged file raises and names the last good line. Everything is read as a stream, so size does not matter.
"""

import bz2
import gzip
import io
import lzma
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, cast

import pyarrow as pa

from isogloss.errors import DataError

STANDARD_INPUT = Path("-")
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst", b"\xfd7zXZ": ".xz"}
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")
_SHORT_TAR = {".tgz": ".gz", ".txz": ".xz", ".tbz2": ".bz2", ".tzst": ".zst"}
_Decompressor = bz2.BZ2Decompressor | lzma.LZMADecompressor
_STRICT: dict[str, Callable[[], _Decompressor]] = {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}
_PIECE = 2**16  # of decompressed bytes; small, so that the last good line is known precisely
# what the standard library raises for a damaged or encrypted (RuntimeError) file
ARCHIVE_FAULTS = (
    EOFError,
    IndexError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
PARQUET_FAULTS = (OSError, UnicodeDecodeError, pa.ArrowException)  # the second: column names or text that are not UTF-8
_DAMAGE = (*ARCHIVE_FAULTS, OSError, pa.ArrowException)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class ByteStream(AbstractContextManager["ByteStream"]):
    """The decompressed bytes of one file. It counts lines, so that errors can say where damage begins."""

    def __init__(self, read: Callable[[int], bytes], name: str, owned: ExitStack, packed: bool) -> None:
        self._read, self._owned, self._packed = read, owned, packed
        self.name = name
        self.lines = 0

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        pieces: list[bytes] = []
        wanted = size
        while wanted and (piece := self._piece(min(wanted, _PIECE) if self._packed else wanted)):
            pieces.append(piece)
            wanted -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        try:
            piece = self._read(size)
        except _DAMAGE as error:
            if not self._packed:
                raise DataError(f"{self.name}: cannot be read ({_reason(error)})", hint="check the disk") from error
            where = f" after line {self.lines:,}" if self.lines else ""
            cut = isinstance(error, EOFError) or "truncated" in str(error).lower()
            what = f"is cut short{where}" if cut else f"is damaged{where} ({_reason(error)})"
            raise DataError(f"{self.name}: the compressed file {what}", hint="download or compress it again") from error
        if self._packed:
            self.lines += piece.count(b"\n")
        return piece

    def __exit__(self, *error: object) -> None:
        self._owned.close()


def unpacked_name(name: str) -> tuple[str, str]:
    """A file name without the suffix of its compression, and that suffix (or "")."""
    stem, dot, ending = name.rpartition(".")
    suffix = f"{dot}{ending.lower()}"
    if suffix in _SHORT_TAR:
        return f"{stem}.tar", _SHORT_TAR[suffix]
    return (stem, suffix) if suffix in SUFFIXES else (name, "")


def open_stream(path: Path, member: str = "", name: str = "") -> ByteStream:
    """Open a file, a member of an archive, or standard input ("-") for its decompressed bytes.

    `name` is used in messages instead of the path, for a copy of standard input.
    """
    if member:
        return _open_member(path, member)
    if path == STANDARD_INPUT:
        return _open_standard_input()
    return open_file(path, unpacked_name(path.name)[1], name)


def open_file(path: Path, suffix: str, name: str = "") -> ByteStream:
    """Open a file with the compression of `suffix`, whatever its own name ends in."""
    name = name or str(path)
    with ExitStack() as owned:
        try:
            raw = owned.enter_context(path.open("rb", buffering=0 if not suffix else -1))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise unreadable(name, error) from error
        return _unpacked(cast("_Readable", raw), name, suffix, owned.pop_all())


def unreadable(name: str, error: Exception) -> DataError:
    """The error for a file that cannot be opened."""
    shown = name if len(name) < 200 else f"{name[:100]}…{name[-60:]}"
    what = f"cannot be read ({_reason(error)})"
    if isinstance(error, FileNotFoundError | ValueError):
        shown, what = shown.replace("\0", "\\0"), "no such file"
    elif isinstance(error, IsADirectoryError):
        what = "is a folder, not a file"
    return DataError(f"{shown}: {what}", hint="check the path and who may read it")


class _Borrowed(io.BufferedReader):
    """A buffer that leaves its file open."""

    def close(self) -> None:
        pass


def _open_standard_input() -> ByteStream:
    with ExitStack() as owned:
        raw = _Borrowed(cast("io.RawIOBase", sys.stdin.buffer))
        head = raw.peek(8)
        suffix = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")
        return _unpacked(raw, "standard input", suffix, owned.pop_all())


class _Members:
    """Decompresses one or several concatenated streams (pbzip2 writes such).

    The files of the standard library silently stop at a damaged second stream; Arrow fails on an empty one.
    """

    def __init__(self, raw: _Readable, new: Callable[[], _Decompressor]) -> None:
        self._raw, self._new = raw, new
        self._now = new()

    def read(self, size: int) -> bytes:
        while True:
            data = b""
            if self._now.eof:
                data = self._now.unused_data.lstrip(b"\0")  # xz may pad with zeros
                while not data and (more := self._raw.read(_PIECE)):
                    data = more.lstrip(b"\0")
                if not data:
                    return b""
                self._now = self._new()
            elif self._now.needs_input and not (data := self._raw.read(_PIECE)):
                raise EOFError("truncated")
            if piece := self._now.decompress(data, size):
                return piece


def _unpacked(raw: _Readable, name: str, suffix: str, owned: ExitStack) -> ByteStream:
    if not suffix:
        return ByteStream(raw.read, name, owned, packed=False)
    buffered = cast("io.BufferedReader", raw)
    if not buffered.peek(1):
        owned.close()
        raise DataError(f"{name}: the compressed file is cut short (it is empty)", hint="download it again")
    read: Callable[[int], bytes]
    if suffix == ".gz":
        read = gzip.GzipFile(fileobj=buffered).read1  # unlike `read`, it gives what comes before damage
    elif suffix == ".zst":
        read = owned.enter_context(pa.CompressedInputStream(buffered, "zstd")).read
    else:
        read = _Members(raw, _STRICT[suffix]).read
    return ByteStream(read, name, owned, packed=True)


def looks_packed(head: bytes) -> str:
    """The suffix a file should have by its first bytes; "" for plain text."""
    more = {b"PK\x03\x04": ".zip", b"PAR1": ".parquet"}
    return next((suffix for magic, suffix in (_MAGIC | more).items() if head.startswith(magic)), "")


def is_archive(name: str) -> bool:
    """Whether a file is an archive."""
    return name.lower().endswith(".zip") or unpacked_name(name)[0].lower().endswith(".tar")


def members(path: Path) -> list[str]:
    """The names of the files in an archive, sorted."""
    with _explaining_archive(path):
        if path.name.lower().endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                return sorted({one.filename for one in archive.infolist() if one.filename and not one.is_dir()})
        with open_file(path, unpacked_name(path.name)[1]) as stream, _tar(stream) as tar:
            return sorted({one.name for one in tar if one.name and one.isfile()})


@contextmanager
def _explaining_archive(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise unreadable(str(path), error) from error
    except _DAMAGE as error:
        raise DataError(f"{path}: the archive is damaged ({_reason(error)})", hint="download it again") from error


def _tar(stream: ByteStream) -> tarfile.TarFile:
    # "r|" never seeks, so this works for any compression
    return tarfile.open(fileobj=cast("io.BufferedReader", stream), mode="r|")


def _open_member(path: Path, member: str) -> ByteStream:
    opener = _open_zipped if path.name.lower().endswith(".zip") else _open_tarred
    with ExitStack() as owned, _explaining_archive(path):
        raw = opener(path, member, owned)
        suffix = unpacked_name(member)[1]
        name = f"{path}:{member}"
        if suffix:
            return _unpacked(io.BufferedReader(cast("io.RawIOBase", raw)), name, suffix, owned.pop_all())
        return ByteStream(raw.read, name, owned.pop_all(), packed=True)


def _open_zipped(path: Path, member: str, owned: ExitStack) -> _Readable:
    archive = owned.enter_context(zipfile.ZipFile(path))
    try:
        return owned.enter_context(archive.open(member))
    except (KeyError, RuntimeError) as error:  # RuntimeError: it has a password
        raise DataError(f"{path}:{member}: cannot be read ({_reason(error)})", hint="unpack it first") from error


def _open_tarred(path: Path, member: str, owned: ExitStack) -> _Readable:
    stream = owned.enter_context(open_file(path, unpacked_name(path.name)[1]))
    tar = owned.enter_context(_tar(stream))
    found = next((one for one in tar if one.name == member), None)
    handle = tar.extractfile(found) if found else None
    if handle is None:
        raise DataError(f"{path}: has no file {member}", hint="list it with tar -tf")
    return cast("_Readable", owned.enter_context(handle))


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__

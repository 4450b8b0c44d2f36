"""Checksums of stored files: damage by a disk or a copy is detected when a file is opened, and damaged files are never used.

    one file      ends with a seal: a mark, the length of the content, and its sha256 (`sealing`, `is_intact`)
    a folder      has a SHA256SUMS file, which `sha256sum -c` reads too (`write_sums`, `check_sums`)
    rows          that are looked up one by one have a checksum each (`row_checksums`)
    JSON          has a "checksum" key (`storage.write_json`); the parts of a store have theirs in its manifest

Readers of .npy, .npz, torch and faiss files ignore bytes after their content, so they do not see the seal.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isogloss.storage import atomic_write, explaining_disk, file_hash, write_text

if TYPE_CHECKING:
    from isogloss.errors import IsoglossError

logger = logging.getLogger(__name__)

MARK = b"isogloss"
SEAL_BYTES = len(MARK) + 8 + hashlib.sha256().digest_size
SUMS = "SHA256SUMS"
READ_AT_ONCE = 1 << 20


@contextmanager
def sealing(path: Path) -> Iterator[Path]:
    """Like `storage.atomic_write`, with a seal at the end of the file."""
    with atomic_write(path) as temporary:
        yield temporary
        seal(temporary)


def seal(path: Path) -> None:
    """Append the seal to a finished file."""
    with explaining_disk(path), path.open("r+b") as handle:
        digest = hashlib.file_digest(handle, "sha256").digest()
        length = handle.seek(0, os.SEEK_END)
        handle.write(MARK + length.to_bytes(8, "little") + digest)


def is_intact(path: Path) -> bool:
    """Whether a file matches its seal; False if it has none or is missing."""
    try:
        with path.open("rb") as handle:
            length = max(handle.seek(0, os.SEEK_END) - SEAL_BYTES, 0)
            handle.seek(length)
            mark, found = MARK + length.to_bytes(8, "little"), handle.read()
            return found.startswith(mark) and found == mark + head_digest(path, length).digest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False


def head_digest(path: Path, length: int) -> "hashlib._Hash":
    """The sha256 of a file's first `length` bytes, as an object that can be updated with more."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while length and (block := handle.read(min(READ_AT_ONCE, length))):
            digest.update(block)
            length -= len(block)
    return digest


def is_usable(path: Path) -> bool:
    """Whether a file exists and is intact. A damaged one is removed with a warning, so that it is computed again."""
    if is_intact(path):
        return True
    if path.is_file():
        logger.warning("%s is damaged or from another version; it is computed again", path)
        path.unlink(missing_ok=True)
    return False


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a sealed .npy file."""
    with sealing(path) as temporary, temporary.open("wb") as handle:
        np.save(handle, array, allow_pickle=False)


def load_array(path: Path) -> NDArray[Any] | None:
    """A stored array, mapped from disk; None if it is missing or damaged."""
    if not is_usable(path):
        return None
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write several arrays as one sealed .npz file."""
    with sealing(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def load_arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays that `save_arrays` wrote, in memory; None if they are missing or damaged."""
    if not is_usable(path):
        return None
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def row_checksums(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """A checksum of each row's bytes, never 0: Σ wᵢ·xᵢ mod 2⁶⁴ over its 8-byte words x, with odd constants w.

    As every w is odd, a change inside one word always changes the sum; other damage goes unnoticed with probability 2⁻⁶³.
    """
    if not len(rows):
        return np.empty(0, dtype=np.uint64)
    flat = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    words = -(-flat.shape[1] // 8)
    if flat.shape[1] % 8:
        flat = np.pad(flat, ((0, 0), (0, 8 * words - flat.shape[1])))
    weights = np.frombuffer(hashlib.shake_128(MARK).digest(8 * words), dtype="<u8") | np.uint64(1)
    sums: NDArray[np.uint64] = np.ascontiguousarray(flat).view("<u8") @ weights
    return np.maximum(sums, np.uint64(1))


def write_sums(folder: Path, but: tuple[str, ...] = ()) -> None:
    """Write SHA256SUMS for all files of a folder except those in `but`, which people may edit."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in (SUMS, *but))
    write_text(folder / SUMS, "".join(f"{file_hash(file)}  {file.relative_to(folder).as_posix()}\n" for file in files))


def check_sums(folder: Path, refusal: "Callable[[str], IsoglossError]") -> None:
    """Raise if a file of a folder does not match SHA256SUMS; a folder without that file is not checked."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    except UnicodeDecodeError:
        raise refusal(SUMS) from None
    for digest, _, name in (line.partition("  ") for line in lines):
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:  # links are fine: the hub's cache is made of them
            raise refusal(SUMS)
        if not (folder / path).is_file():
            raise refusal(f"{name} (missing)")
        if file_hash(folder / path) != digest:
            raise refusal(name)

"""Writing to disk so that nobody ever reads half a file.

Everything isogloss leaves behind goes through here: written under a temporary name beside its place, flushed, then
renamed. A reader, or the next run after a kill -9, sees the old thing or the new thing, never a piece of it.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.errors import IsoglossError
from isogloss.shapes import parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

TEMPORARY_MARK = ".partial-"
ASIDE_MARK = f"{TEMPORARY_MARK}old-"
LOCK = ".lock"
WORK = "work"  # in the folder of a run: what it goes on from when it is stopped
NOTHING_MADE_THERE = "nothing can be made there"
NEARLY_NOTHING = 2**20  # bytes
TORCH_UNFINISHED = ("inline_container", "iostream error")  # in what torch says of a file that it could not write to the end
_NOT_WRITABLE = {
    errno.ENOSPC,
    getattr(errno, "EDQUOT", errno.ENOSPC),
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


class ContentHash:
    """A short stable name for some content; the parts are kept apart, so ("ab", "c") is not ("a", "bc")."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, *parts: str | bytes | memoryview) -> None:
        """Take in more content."""
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            self._digest.update(len(data).to_bytes(8, "little"))
            self._digest.update(data)

    def name(self) -> str:
        """The name of everything added so far."""
        return self._digest.hexdigest()


def content_hash(*parts: str | bytes | memoryview) -> str:
    """The name of a few parts at once."""
    digest = ContentHash()
    digest.add(*parts)
    return digest.name()


def file_hash(path: Path) -> str:
    """The sha256 of a file's bytes, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def weights_hash(folder: Path) -> str:
    """Names the weights of a saved model: every safetensors file in it, with its place."""
    files = sorted(folder.rglob("*.safetensors"))
    return content_hash(*(part for file in files for part in (str(file.relative_to(folder)), file_hash(file))))


def canonical_json(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """JSON with sorted keys and no spaces: equal values give equal text, so it can be hashed."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it becomes `path`, otherwise it is removed.

    Works for a file or a folder. A folder that was there before is swapped out whole, so it is never half old, half new.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}{TEMPORARY_MARK}{uuid.uuid4().hex[:8]}")
    try:
        with explaining_disk(path):
            yield temporary
            _flush(temporary)
            _move_into_place(temporary, path)
    finally:
        _remove(temporary)


@contextmanager
def explaining_disk(path: Path) -> Iterator[None]:
    """Turn the system's "no space left", "read-only" and the like into a sentence with the path and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            raise _not_written(path, error.strerror or str(error)) from error
        if not _cannot_be_made(error):
            raise
        raise _not_written(path, NOTHING_MADE_THERE) from error
    except IsoglossError:
        raise
    except Exception as error:  # torch and safetensors have errors of their own for a full disk
        if not (_is_full(path) or _says_full(error)):
            raise
        raise _not_written(path, "no space left") from error


def _not_written(path: Path, why: str) -> IsoglossError:
    return IsoglossError(
        f"{path}: cannot be written ({why})",
        hint="free some space or name another folder; what was there before is untouched",
    )


def _in_the_way(path: Path) -> IsoglossError:
    """Said where a folder was to be made, and it or one that it would lie in is a file."""
    file = next((place for place in (path, *path.parents) if place.exists() or place.is_symlink()), path)
    told = "it is a file, not a folder" if file == path else f"{file} is a file, not a folder"
    return IsoglossError(f"{path}: cannot be written ({told})", hint="name a folder; what is there is untouched")


def _cannot_be_made(error: OSError) -> bool:
    """Whether what we were about to make was "not found": so says /proc, where nobody can make anything."""
    name = Path(error.filename).name if isinstance(error.filename, str | os.PathLike) else ""
    return error.errno == errno.ENOENT and (name == LOCK or TEMPORARY_MARK in name)


def _is_full(path: Path) -> bool:
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free < NEARLY_NOTHING


def _says_full(error: Exception) -> bool:
    """Whether torch could not write a file to its end: by the time we look, another process may have made space again."""
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in TORCH_UNFINISHED)


def cache_folder() -> Path:
    """Where what can be made or fetched again is kept: `$ISOGLOSS_CACHE`, or `isogloss` in the user's cache folder."""
    if told := os.environ.get("ISOGLOSS_CACHE"):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isogloss"


@contextmanager
def alone_in(folder: Path, refusal: str, hint: str) -> Iterator[None]:
    """Be the only isogloss that writes to a folder; the system itself lets go of the lock when a process dies."""
    from filelock import FileLock, Timeout

    make_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        with explaining_disk(folder):
            lock.acquire(timeout=0)
    except Timeout as error:
        if not (folder / LOCK).exists():  # filelock goes on trying where no file can be made
            raise _not_written(folder, NOTHING_MADE_THERE) from error
        raise IsoglossError(f"{folder}: {refusal}", hint=hint) from error
    try:
        yield
    finally:
        lock.release()


def make_folder(path: Path) -> None:
    """Make a folder and its parents, if they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # for whatever reason: there is nothing that a run could do without its folder
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            raise _in_the_way(path) from error
        why = NOTHING_MADE_THERE if error.errno == errno.ENOENT else error.strerror or str(error)
        raise _not_written(path, why) from error


def refuse_folder(path: Path) -> None:
    """Say before the work, not after it, that a file cannot be written where a folder is."""
    if path.is_dir():
        raise IsoglossError(f"{path}: is a folder, and a file was to be written there", hint="name a file inside it")


def refuse_overwriting(path: Path, inputs: Iterable[str | Path]) -> None:
    """An output never replaces the file it is made from."""
    if path.exists():
        for name in inputs:
            if Path(name).exists() and path.samefile(name):
                raise IsoglossError(f"{path}: is also an input, and would be replaced", hint="name another output")


def write_text(path: Path, text: str) -> None:
    """Put `text` in `path` atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Put `value` in `path` as readable JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Read JSON from a file; whatever is wrong with the text is a ValueError."""
    return parse_json(path.read_text(encoding="utf-8"))


def load_array(path: Path) -> "NDArray[Any] | None":
    """A kept array, mapped from disk; None if it is not there, or damaged (it is removed then, to be computed again)."""
    import numpy as np

    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        return None
    except (ValueError, EOFError):  # not OSError: a file that cannot be opened now may be whole
        logger.warning("%s is damaged; it is computed again", path)
        path.unlink(missing_ok=True)
        return None
    return array


def append_line(path: Path, line: str) -> None:
    """Add one line to a log such as metrics.jsonl; a torn last line from a killed process is closed off first."""
    with explaining_disk(path), path.open("ab+") as handle:
        size = handle.seek(0, os.SEEK_END)
        if size:
            handle.seek(size - 1)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write(line.encode() + b"\n")


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed process left in `folder`.

    A folder that was stepped aside and whose place is empty (killed between two renames) is put back.
    """
    if not folder.is_dir():
        return
    for leftover in folder.glob(f".*{TEMPORARY_MARK}*"):
        place = leftover.with_name(leftover.name[1:].split(TEMPORARY_MARK)[0])
        if ASIDE_MARK in leftover.name and not place.exists():
            leftover.rename(place)
        else:
            _remove(leftover)


def _flush(path: Path) -> None:
    """Ask the disk to hold the bytes before the rename makes them visible."""
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _move_into_place(temporary: Path, path: Path) -> None:
    if not temporary.is_dir():
        refuse_folder(path)
    if path.is_dir():  # a folder cannot be renamed over a full one: step it aside first
        aside = path.with_name(f".{path.name}{ASIDE_MARK}{uuid.uuid4().hex[:8]}")
        path.rename(aside)
        temporary.rename(path)
        shutil.rmtree(aside)
    else:
        temporary.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # what could not be written cannot be removed either, and the first error is the one to hear
            path.unlink(missing_ok=True)

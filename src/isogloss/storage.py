"""Writing to disk so that nobody ever reads half a file.

Everything isogloss leaves behind goes through here: written under a temporary name beside its place, flushed, then
renamed. A reader, or the next run after a kill -9, sees the old thing or the new thing, never a piece of it.
"""

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from isogloss.errors import IsoglossError
from isogloss.shapes import parse_json
from isogloss.system_errors import SPACE, Cause, cause_of, explained, file_of, not_written

CHECKSUM = "checksum"  # the key of a kept JSON file that holds its own
TEMPORARY_MARK = ".partial-"
ASIDE_MARK = f"{TEMPORARY_MARK}old-"
LOCK = ".lock"
WORK = "work"  # in the folder of a run: what it goes on from when it is stopped
_NOTHING_MADE = Cause(errno.ENOENT, "nothing can be made there", "name another folder")
_FULL = Cause(errno.ENOSPC, "no space left", SPACE)
NEARLY_NOTHING = 2**20  # bytes


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


def file_checksum(path: Path) -> str:
    """The sha256 of a file's bytes; empty where there is no file."""
    return file_hash(path) if path.is_file() else ""


def weights_hash(folder: Path) -> str:
    """Names the weights of a saved model: every safetensors file in it, with its place."""
    files = sorted(folder.rglob("*.safetensors"))
    return content_hash(*(part for file in files for part in (str(file.relative_to(folder)), file_hash(file))))


def canonical_json(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """JSON with sorted keys and no spaces: equal values give equal text, so it can be hashed."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
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
        remove(temporary)


@contextmanager
def explaining_disk(path: Path) -> Iterator[None]:
    """Turn the system's "no space left", "read-only" and the like into a sentence with the path and what to do."""
    try:
        yield
    except (IsoglossError, MemoryError):
        raise
    except Exception as error:
        cause = _why_not_written(path, error)
        if cause is None:
            raise
        elsewhere = None if _is_about(path, error) else explained(error)  # a file that was read meanwhile
        raise elsewhere or not_written(path, cause) from error


def _why_not_written(path: Path, error: Exception) -> Cause | None:
    """What kept something from being written; None if it was something else."""
    if isinstance(error, OSError) and _cannot_be_made(error):
        return _NOTHING_MADE
    cause = cause_of(error)
    if cause is not None:
        return None if cause.number == errno.ENOMEM else cause
    if not isinstance(error, OSError) and _is_full(path):  # torch and safetensors have errors of their own for a full disk
        return _FULL
    return None


def _is_about(path: Path, error: Exception) -> bool:
    """Whether an error names nothing but what is written."""
    name = file_of(error)
    return not name or Path(name).absolute().is_relative_to(path.absolute().parent)


def _in_the_way(path: Path) -> IsoglossError:
    """Said where a folder was to be made, and it or one that it would lie in is a file."""
    file = next((place for place in (path, *path.parents) if place.exists() or place.is_symlink()), path)
    told = "it is a file, not a folder" if file == path else f"{file} is a file, not a folder"
    return IsoglossError(f"{path}: cannot be written ({told})", hint="name a folder; what is there is untouched")


def _cannot_be_made(error: OSError) -> bool:
    """Whether what we were about to make was "not found": so says /proc, where nobody can make anything."""
    name = Path(file_of(error)).name
    return error.errno == errno.ENOENT and (name == LOCK or TEMPORARY_MARK in name)


def _is_full(path: Path) -> bool:
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free < NEARLY_NOTHING


def cache_folder() -> Path:
    """Where what can be made or fetched again is kept: `$ISOGLOSS_CACHE`, or `isogloss` in the user's cache folder."""
    if told := os.environ.get("ISOGLOSS_CACHE"):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isogloss"


@contextmanager
def folder_lock(folder: Path, refusal: str, hint: str) -> Iterator[None]:
    """Be the only isogloss that writes to a folder; the system itself lets go of the lock when a process dies."""
    from filelock import FileLock, Timeout

    make_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        with explaining_disk(folder):
            lock.acquire(timeout=0)
    except Timeout as error:
        if not (folder / LOCK).exists():  # filelock goes on trying where no file can be made
            raise not_written(folder, _NOTHING_MADE) from error
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
        unknown = Cause(error.errno or 0, error.strerror or str(error), SPACE)
        raise not_written(path, _NOTHING_MADE if error.errno == errno.ENOENT else cause_of(error) or unknown) from error


def refuse_folder(path: Path) -> None:
    """Say before the work, not after it, that a file cannot be written where a folder is."""
    if path.is_dir():
        raise IsoglossError(f"{path}: is a folder, and a file was to be written there", hint="name a file inside it")


def refuse_unwritable(path: Path) -> None:
    """Say before the work, not after it, that a file cannot be written to its place."""
    make_folder(path.parent)
    trial = path.with_name(f".{path.name}{TEMPORARY_MARK}{uuid.uuid4().hex[:8]}")
    with explaining_disk(path):
        try:
            trial.touch(exist_ok=False)
        finally:
            remove(trial)


def refuse_overwriting(path: Path, inputs: Iterable[str | Path]) -> None:
    """An output never replaces the file it is made from."""
    if path.exists():
        for name in inputs:
            if Path(name).exists() and path.samefile(name):
                raise IsoglossError(f"{path}: is also an input, and would be replaced", hint="name another output")


def write_text(path: Path, text: str) -> None:
    """Put `text` in `path` atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """JSON as people read it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Put `value` in `path` as readable JSON with a checksum, atomically."""
    held = {name: one for name, one in value.items() if name != CHECKSUM}
    seen = json.loads(json.dumps(held))  # as a reader sees it: every key is a string
    sealed = held | {CHECKSUM: _json_checksum(seen)}
    write_text(path, json_text(sealed))


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Read JSON; whatever is wrong with the text is a ValueError, and so is content that does not fit its checksum.

    A file that somebody edits on purpose is taken again once its "checksum" line is removed.
    """
    value = parse_json(path.read_text(encoding="utf-8"))
    if isinstance(value, dict) and CHECKSUM in value:
        checksum = value.pop(CHECKSUM)
        if checksum != _json_checksum(value):
            raise ValueError(f'{path}: damaged or edited: its content does not fit its "{CHECKSUM}"')
    return value


def _json_checksum(value: dict[str, Any]) -> str:
    return content_hash(canonical_json(value))


def append_line(path: Path, line: str) -> None:
    """Add one line to a log such as metrics.jsonl; a torn last line from a killed process is closed off first."""
    with explaining_disk(path), path.open("ab+") as handle:
        size = handle.seek(0, os.SEEK_END)
        if size:
            handle.seek(size - 1)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write(line.encode() + b"\n")


def remove_stale_files(folder: Path) -> None:
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
            remove(leftover)


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
        try:
            temporary.rename(path)
        except OSError:  # the old one goes back to its place
            aside.rename(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)  # what stays of it is swept later
    else:
        temporary.replace(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # what could not be written cannot be removed either, and the first error is the one to hear
            path.unlink(missing_ok=True)

"""Atomic writes, locks and content hashes.

Every file and folder is written under a temporary name beside its final place, flushed, then renamed. A reader, or the next run
after a kill -9, sees the old version or the new one, never a part of it.
"""

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from isogloss.errors import IsoglossError
from isogloss.shapes import parse_json
from isogloss.system_errors import SPACE, Cause, cause_of, explained, file_of, not_written

CHECKSUM = "checksum"  # key of a JSON file's own checksum
TEMPORARY_MARK = ".partial-"
ASIDE_MARK = f"{TEMPORARY_MARK}old-"
LOCK = ".lock"
WORK = "work"  # in the folder of a run: what an interrupted run continues from
_NOTHING_MADE = Cause(errno.ENOENT, "nothing can be created there", "name another folder")
_FULL = Cause(errno.ENOSPC, "no space left", SPACE)
NEARLY_NOTHING = 2**20  # bytes


class ContentHash:
    """An incremental hash of parts; ("ab", "c") and ("a", "bc") differ."""

    def __init__(self, *parts: str | bytes | memoryview) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self.add(*parts)

    def add(self, *parts: str | bytes | memoryview) -> None:
        """Add more content."""
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            self._digest.update(len(data).to_bytes(8, "little"))
            self._digest.update(data)

    def name(self) -> str:
        """The hash of everything added so far."""
        return self._digest.hexdigest()


def content_hash(*parts: str | bytes | memoryview) -> str:
    """The hash of some parts."""
    return ContentHash(*parts).name()


def file_hash(path: Path) -> str:
    """The sha256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def file_checksum(path: Path) -> str:
    """The sha256 of a file; empty if there is none."""
    return file_hash(path) if path.is_file() else ""


def weights_hash(folder: Path) -> str:
    """A hash of the weights of a saved model: every safetensors file with its path."""
    files = sorted(folder.rglob("*.safetensors"))
    return content_hash(*(part for file in files for part in (str(file.relative_to(folder)), file_hash(file))))


def canonical_json(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it becomes `path` if the block succeeds, and is removed otherwise.

    Works for files and folders; an existing folder is replaced as a whole.
    """
    make_folder(path.parent)
    temporary = _beside(path, TEMPORARY_MARK)
    try:
        with explaining_disk(path):
            yield temporary
            for file in filter(Path.is_file, [temporary, *temporary.rglob("*")]):
                with file.open("rb") as handle:  # on disk before the rename makes it visible
                    os.fsync(handle.fileno())
            _move_into_place(temporary, path)
    finally:
        remove(temporary)


@contextmanager
def explaining_disk(path: Path) -> Iterator[None]:
    """Turn "no space left", "read-only" and the like into an error with the path and what to do."""
    try:
        yield
    except (IsoglossError, MemoryError):
        raise
    except Exception as error:
        file, cause, is_system_error = Path(file_of(error)), cause_of(error), isinstance(error, OSError)
        ours = file.name == LOCK or TEMPORARY_MARK in file.name
        if is_system_error and getattr(error, "errno", 0) == errno.ENOENT and ours:  # as in /proc
            cause = _NOTHING_MADE
        elif cause is None and not is_system_error and _is_full(path):  # torch and safetensors raise their own errors
            cause = _FULL
        if cause is None or cause.number == errno.ENOMEM:
            raise
        about_path = not file.name or file.absolute().is_relative_to(path.absolute().parent)
        elsewhere = None if about_path else explained(error)  # a file that was being read
        raise elsewhere or not_written(path, cause) from error


def _is_full(path: Path) -> bool:
    existing = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free < NEARLY_NOTHING


def cache_folder() -> Path:
    """The cache folder: `$ISOGLOSS_CACHE`, or `isogloss` in the user's cache folder."""
    if chosen := os.environ.get("ISOGLOSS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isogloss"


@contextmanager
def folder_lock(folder: Path, refusal: str, hint: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Be the only process that writes to a folder; the system releases the lock if the process dies.

    If another one is, this is an error; with `on_wait`, that is called once and this process waits.
    """
    from filelock import FileLock, Timeout

    make_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        with explaining_disk(folder):
            lock.acquire(timeout=0)
    except Timeout as error:
        if not (folder / LOCK).exists():  # filelock keeps trying if no file can be created
            raise not_written(folder, _NOTHING_MADE) from error
        if on_wait is None:
            raise IsoglossError(f"{folder}: {refusal}", hint=hint) from error
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def refuse_small_disk(folder: Path, needed: int, what: str, hint: str) -> None:
    """Raise before hours of work, not after them, if `needed` bytes do not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if needed > 0.9 * free:
        message = f"{folder}: {what} need {needed / 2**30:.1f} GiB, the disk has {free / 2**30:.1f} GiB free"
        raise IsoglossError(message, hint=hint)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, if they do not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # for any reason: a run cannot do without its folder
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            file = next((place for place in (path, *path.parents) if place.exists() or place.is_symlink()), path)
            reason = f"{'it' if file == path else file} is a file, not a folder"
            hint = "name a folder; the file is untouched"
            raise IsoglossError(f"{path}: cannot be written ({reason})", hint=hint) from error
        unknown = Cause(error.errno or 0, error.strerror or str(error), SPACE)
        raise not_written(path, _NOTHING_MADE if error.errno == errno.ENOENT else cause_of(error) or unknown) from error


def refuse_folder(path: Path) -> None:
    """Raise before the work if the output file is a folder."""
    if path.is_dir():
        raise IsoglossError(f"{path}: is a folder; the output must be a file", hint="name a file inside it")


def refuse_unwritable(path: Path) -> None:
    """Raise before the work if the output file cannot be written."""
    make_folder(path.parent)
    trial = _beside(path, TEMPORARY_MARK)
    with explaining_disk(path):
        try:
            trial.touch(exist_ok=False)
        finally:
            remove(trial)


def refuse_overwriting(path: Path, inputs: Iterable[str | Path]) -> None:
    """Raise if an output would replace one of its inputs."""
    if path.exists():
        for name in inputs:
            if Path(name).exists() and path.samefile(name):
                raise IsoglossError(f"{path}: is also an input and would be overwritten", hint="name another output")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """Indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write `value` to `path` as indented JSON with a checksum, atomically."""
    content = {name: inner for name, inner in value.items() if name != CHECKSUM}
    as_read = json.loads(json.dumps(content))  # every key is a string
    write_text(path, json_text(content | {CHECKSUM: content_hash(canonical_json(as_read))}))


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Read JSON; invalid text and a wrong checksum are ValueErrors.

    To edit such a file by hand, remove its "checksum" line.
    """
    value = parse_json(path.read_text(encoding="utf-8"))
    if isinstance(value, dict) and CHECKSUM in value:
        checksum = value.pop(CHECKSUM)
        if checksum != content_hash(canonical_json(value)):
            raise ValueError(f'{path}: damaged or edited: its content does not match its "{CHECKSUM}"')
    return value


def append_line(path: Path, line: str) -> None:
    """Append a line to a log such as metrics.jsonl; an incomplete last line of a killed process is ended first."""
    with explaining_disk(path), path.open("ab+") as handle:
        size = handle.seek(0, os.SEEK_END)
        if size:
            handle.seek(size - 1)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write(line.encode() + b"\n")


def remove_stale_files(folder: Path, name: str = "") -> None:
    """Remove temporary files that a killed process left in `folder`; with a name, only those of that file or folder.

    If it was killed between the two renames that replace a folder, the old folder is restored.
    """
    if not folder.is_dir():
        return
    for leftover in folder.glob(f".*{TEMPORARY_MARK}*"):
        if name and not leftover.name.lstrip(".").startswith(name.lstrip(".") + TEMPORARY_MARK):
            continue
        place = leftover.with_name(leftover.name[1:].split(TEMPORARY_MARK)[0])
        of_a_temporary_one = leftover.name.count(TEMPORARY_MARK) > 1
        if ASIDE_MARK in leftover.name and not of_a_temporary_one and not place.exists():
            leftover.rename(place)
        else:
            remove(leftover)


def _beside(path: Path, mark: str) -> Path:
    return path.with_name(f".{path.name}{mark}{uuid.uuid4().hex[:8]}")


def _move_into_place(temporary: Path, path: Path) -> None:
    if not temporary.is_dir():
        refuse_folder(path)
    if path.is_dir():  # a folder cannot be renamed over a non-empty one: move that aside first
        aside = _beside(path, ASIDE_MARK)
        path.rename(aside)
        try:
            temporary.rename(path)
        except OSError:  # restore the old one
            aside.rename(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)  # what remains is removed by remove_stale_files
    else:
        temporary.replace(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists and can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the error that led here matters more
            path.unlink(missing_ok=True)

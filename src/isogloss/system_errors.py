"""Explain system errors in one sentence: no space, no memory, too many open files, a failing disk or network share.

Libraries raise them in many forms: an OSError with its number, one without (numpy, after a short write), or their own exception
that only quotes the system's message (torch, safetensors). `cause_of` recognizes them all. `storage.explaining_disk` uses it
for files being written, the command line for everything else.
"""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import IsoglossError

SPACE = "free some space or name another folder; existing files are untouched"
PLACE = "check the permissions or name another place; existing files are untouched"
DEVICE = "check the disk or the network share, then run the same command again; existing files are untouched"
FILES = "close other programs, or raise the limit: ulimit -n 4096; existing files are untouched"
MEMORY = "close other programs, or use a machine with more memory; finished work is kept"
_BY_HINT = {
    SPACE: (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)),
    PLACE: (errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
    DEVICE: (
        errno.EBUSY,
        errno.EIO,
        errno.ENOLCK,
        errno.ETIMEDOUT,
        errno.ENXIO,
        errno.ENODEV,
        getattr(errno, "ESTALE", errno.EIO),
    ),
    FILES: (errno.EMFILE, errno.ENFILE),
    MEMORY: (errno.ENOMEM,),
    "raise the limit on the size of files (ulimit -f), or name another disk; existing files are untouched": (errno.EFBIG,),
    "name a folder that is on one disk as a whole; existing files are untouched": (errno.EXDEV,),
    "close other programs, or raise the limit on processes (ulimit -u)": (errno.EAGAIN,),
}
_HINTS = {number: hint for hint, numbers in _BY_HINT.items() for number in numbers}
_QUOTED = (errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # numpy
_TORCH_UNFINISHED = ("inline_container", "iostream error")  # in torch's message for an incomplete write
_NO_MEMORY = ("std::bad_alloc", "can't allocate memory", "out of memory")
_NO_THREAD = "can't start new thread"


@dataclass(frozen=True, slots=True)
class Cause:
    """A system error: its number, its message, and what to do."""

    number: int
    why: str
    hint: str


def cause_of(error: BaseException) -> Cause | None:
    """The system error behind an exception; None if there is none."""
    number = _number_of(error)
    if number is None:
        return None
    text = os.strerror(number)
    return Cause(number, text[:1].lower() + text[1:], _HINTS[number])


def not_written(path: Path, cause: Cause) -> IsoglossError:
    """The error for a path that cannot be written."""
    return IsoglossError(f"{path}: cannot be written ({cause.why})", hint=cause.hint)


def explained(error: BaseException) -> IsoglossError | None:
    """The explanation of a system error; None for any other exception."""
    cause, name = cause_of(error), file_of(error)
    if cause is None and isinstance(error, FileNotFoundError) and name:
        return IsoglossError(
            f"{name}: no such file or directory", hint="was it removed in the meantime? run the same command again"
        )
    if cause is None:
        return None
    if cause.number == errno.ENOMEM:
        where = " on the GPU" if "CUDA" in str(error) else ""
        return IsoglossError(f"there is not enough memory{where}", hint=MEMORY)
    if cause.number == errno.ENOSPC and not name:
        return IsoglossError(f"the output cannot be written ({cause.why})", hint="free some space")
    return IsoglossError(f"{name or 'the system gave an error'}: {cause.why}", hint=cause.hint)


def file_of(error: BaseException) -> str:
    """The file that an error is about; empty if it does not say."""
    name = getattr(error, "filename", None)
    return os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""


def _number_of(error: BaseException) -> int | None:
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in _HINTS else None
    text = str(error)
    if isinstance(error, OSError) and _SHORT_WRITE.search(text):
        return errno.ENOSPC
    return _number_in(text) if isinstance(error, Exception) else None


def _number_in(text: str) -> int | None:
    """The number of a system error that is only quoted."""
    for number in _QUOTED:
        if os.strerror(number).lower() in text.lower():
            return number
    if any(mark in text for mark in _TORCH_UNFINISHED):
        return errno.ENOSPC
    if any(mark in text for mark in _NO_MEMORY):
        return errno.ENOMEM
    return errno.EAGAIN if _NO_THREAD in text else None

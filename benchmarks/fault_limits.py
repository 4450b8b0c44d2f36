"""Full disks, failing renames and limits: one sentence, exit code 2, nothing lost, and the same command goes on later.

A fault is put into the process of a command: a limit of the system (size of files, open files, memory), or an error that the
n-th rename, or the n-th file that is opened for writing, meets. Where the benchmark may mount one (as root), the output also
goes to a file system of a few hundred kilobytes.
"""

import errno
import functools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_world import Fault, World, finished_wrongly, made_before, mixture, run_to_end

ROOMY = 512 * 1024  # kibibytes
ERRORS = ("EIO", "ESTALE", "EXDEV", "ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENOMEM")
ABORTED = (127, -signal.SIGABRT, -signal.SIGSEGV)  # by the C library, which ends a process that gets no memory for a thread
NO_ERROR = "SystemError: error return without exception set"  # of a C library that got no memory, as Python reports it
SIZES = (2048, 4096, 20_000, 60_000)  # bytes a file may have: what a command says goes to a file here, too


def small_files(size: int) -> None:
    """No file may be larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def few_files(more: int) -> None:
    """So many files may be open beside those that are."""
    most = len(os.listdir("/proc/self/fd")) + more
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def little_memory(mebibytes: int) -> None:
    """So much memory may be asked for beyond what the process has."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + mebibytes * 2**20,) * 2)


def failing(event: str, name: str, at: int, root: str) -> None:
    """The `at`-th call of a kind below a folder meets an error of the system."""
    seen = 0
    number = getattr(errno, name)

    def hook(what: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if what != event or not str(arguments[0]).startswith(root) or (what == "open" and not _writes(arguments)):
            return
        seen += 1
        if seen == at:
            raise OSError(number, os.strerror(number), str(arguments[0]))

    sys.addaudithook(hook)


def _writes(arguments: tuple[Any, ...]) -> bool:
    return bool(arguments[2] and arguments[2] & (os.O_WRONLY | os.O_RDWR)) and not str(arguments[0]).endswith(".lock")


def faults(chance: random.Random, root: Path) -> tuple[str, Fault]:
    """One fault, and its name."""
    kinds: dict[str, Callable[[], tuple[str, Fault]]] = {
        "rename": lambda: _failing(chance, "os.rename", root),
        "open": lambda: _failing(chance, "open", root),
        "size": lambda: (f"files of at most {(size := chance.choice(SIZES))} bytes", functools.partial(small_files, size)),
        "files": lambda: (f"{(more := chance.randint(0, 6))} more open files", functools.partial(few_files, more)),
        "memory": lambda: (f"{(room := chance.randint(1, 64))} MiB more memory", functools.partial(little_memory, room)),
    }
    return kinds[chance.choices(list(kinds), weights=(4, 3, 3, 1, 1))[0]]()


def _failing(chance: random.Random, event: str, root: Path) -> tuple[str, Fault]:
    name, at = chance.choice(ERRORS), chance.randint(1, 25)
    return f"{event} {at}: {name}", functools.partial(failing, event, name, at, str(root))


def trial(world: World, name: str, known: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    """Run a command into a fault, look at how it ends, then let it finish without one."""
    chance = random.Random(seed)
    mounted = os.geteuid() == 0 and chance.random() < 0.25
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    verb, place = world.verbs[name], folder / "place"
    place.mkdir()
    mounted = mounted and _mounted(place)
    try:
        made_before(verb, place / "result")
        told, fault = _small_disk(place, chance) if mounted else faults(chance, place)
        done = run_to_end(verb, place / "result", folder / "scratch", fault)
        killed = (not done.traceback and done.code in ABORTED) or NO_ERROR in done.errors
        hit, aborted = done.code != 0, "memory" in told and killed
        wrong = "" if done.code == 0 or aborted else complaint(done.code, done.errors)
        wrong = wrong or mixture(verb, place / "result", known)
        if mounted:
            _resize(place, ROOMY)
        wrong = wrong or finished_wrongly(verb, place / "result", folder / "scratch", known)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=False)  # we may still have an index mapped
    return {"kind": "limit", "verb": name, "seed": seed, "fault": told, "hit": hit, "aborted": aborted, "wrong": wrong}


def _mounted(place: Path) -> bool:
    """Whether a file system could be mounted there."""
    size = f"size={ROOMY}k"
    return not subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=False).returncode


def _small_disk(place: Path, chance: random.Random) -> tuple[str, Fault]:
    """So little room beside what is there already."""
    room = chance.choice((64, 200, 400, 800))
    _resize(place, shutil.disk_usage(place).used // 1024 + room)
    return f"a disk of {room} KiB", _nothing


def _resize(place: Path, kibibytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kibibytes}k", str(place)], check=True)


def _nothing() -> None:
    """The fault is in the file system."""


def complaint(code: int, errors: str) -> str:
    """What is wrong with the end of a command that could not work; nothing if it was a sentence and exit code 2."""
    if "Traceback" in errors:
        return f"a traceback: {errors[-400:]}"
    if code != 2 or not any(line.startswith("isogloss: ") for line in errors.splitlines()):
        return f"ended with {code}: {errors[-400:]}"
    return ""

"""What the system refuses is one sentence, by whichever library it was raised: real limits, in child processes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isogloss.errors import IsoglossError
from isogloss.storage import atomic_write
from isogloss.system_errors import cause_of, explained


def limited(limit: str, most: int, script: str, *arguments: object) -> str:
    """Run a script in a process with a limit of its own; what it printed."""
    begin = f"import resource, sys\nfrom pathlib import Path\nresource.setrlimit(resource.{limit}, ({most}, {most}))\n"
    command = [sys.executable, "-c", begin + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITES = """
import numpy as np
from isogloss.errors import IsoglossError
from isogloss.storage import atomic_write
WRITERS = {
    "numpy": lambda path: np.save(path.open("wb"), np.zeros(100_000)),
    "tofile": lambda path: np.zeros(100_000).tofile(path),
    "text": lambda path: path.write_text("x" * 800_000),
}
for name, write in WRITERS.items():
    try:
        with atomic_write(Path(sys.argv[1]) / name) as temporary:
            write(temporary)
    except IsoglossError as error:
        print(name, error.message, error.hint, sep="|")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
def test_a_write_that_comes_up_short_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    """An OSError of numpy has no number where the system wrote less than was asked for."""
    lines = limited("RLIMIT_FSIZE", 4096, WRITES, tmp_path).splitlines()
    assert [line.split("|")[0] for line in lines] == ["numpy", "tofile", "text"]
    for line in lines:
        name, message, hint = line.split("|")
        assert message.startswith(f"{tmp_path / name}: cannot be written (") and "existing files are untouched" in hint
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
def test_too_many_open_files_is_one_sentence(tmp_path: Path) -> None:
    script = """
from isogloss.errors import IsoglossError
from isogloss.storage import write_text
import os
held = []
try:
    while True:
        held.append(open(os.devnull))
except OSError:
    pass
try:
    write_text(Path(sys.argv[1]) / "x", "text")
except IsoglossError as error:
    print(error.message, error.hint, sep="|")
"""
    message, hint = limited("RLIMIT_NOFILE", 32, script, tmp_path).strip().split("|")
    assert message == f"{tmp_path / 'x'}: cannot be written (too many open files)" and "ulimit -n" in hint
    assert os.listdir(tmp_path) == []


MEMORY = """
import errno, mmap
import numpy as np, pyarrow as pa, torch
from isogloss.system_errors import explained
with open(sys.argv[1], "w+b") as handle:
    handle.truncate(2**36)
    limit = 2**31 + int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    ASKED = {
        "numpy": lambda: np.zeros(2**36, np.uint8),
        "torch": lambda: torch.zeros(2**36, dtype=torch.uint8),
        "arrow": lambda: pa.allocate_buffer(2**36),
        "mmap": lambda: mmap.mmap(handle.fileno(), 2**36),
    }
    for name, ask in ASKED.items():
        try:
            ask()
        except Exception as error:
            said = explained(error)
            print(name, type(error).__name__, said.message if said else error, sep="|")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs to know how much memory a process has")
def test_a_memory_limit_is_one_sentence(tmp_path: Path) -> None:
    begin = "import resource, sys\nfrom pathlib import Path\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + MEMORY, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    said = {line.split("|")[0]: line.split("|")[-1] for line in done.stdout.splitlines()}
    assert said == dict.fromkeys(("numpy", "torch", "arrow", "mmap"), "there is not enough memory")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EXDEV, errno.EBUSY, errno.ENOSPC])
@pytest.mark.parametrize("folder", [False, True])
def test_a_rename_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, folder: bool
) -> None:
    """The system call is refused for the new thing, as a network share does; stepping the old one aside works."""
    place = tmp_path / "model"
    with atomic_write(place) as temporary:
        fill(temporary, folder, "old")
    real = {name: getattr(os, name) for name in ("rename", "replace")}

    def refuse(how: str, source: os.PathLike[str], target: os.PathLike[str]) -> None:
        if ".partial-" in Path(source).name and "old-" not in Path(source).name:
            raise OSError(number, os.strerror(number), str(source), None, str(target))
        real[how](source, target)

    for how in real:
        monkeypatch.setattr(os, how, lambda source, target, how=how: refuse(how, source, target))
    with pytest.raises(IsoglossError, match="cannot be written") as caught, atomic_write(place) as temporary:
        fill(temporary, folder, "new")
    assert caught.value.message == f"{place}: cannot be written ({os.strerror(number)[0].lower()}{os.strerror(number)[1:]})"
    assert os.listdir(tmp_path) == ["model"]
    assert (place / "text" if folder else place).read_text() == "old"


def fill(path: Path, folder: bool, text: str) -> None:
    if folder:
        path.mkdir()
        path = path / "text"
    path.write_text(text)


def test_a_file_that_cannot_be_read_while_another_is_written_is_the_one_that_is_named(tmp_path: Path) -> None:
    other = tmp_path / "input" / "pairs.tsv"
    with pytest.raises(IsoglossError) as caught, atomic_write(tmp_path / "out" / "x"):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(other))
    assert caught.value.message == f"{other}: input/output error"


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError("100000 requested and 12 written"), errno.ENOSPC),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), errno.ENOMEM),
        (RuntimeError("CUDA out of memory. Tried to allocate 20 GiB"), errno.ENOMEM),
        (Exception("I/O error: No space left on device (os error 28)"), errno.ENOSPC),
        (ImportError("libtorch.so: failed to map segment from shared object: Cannot allocate memory"), errno.ENOMEM),
        (RuntimeError("can't start new thread"), errno.EAGAIN),
        (OSError(errno.EXDEV, "x"), errno.EXDEV),
        (FileNotFoundError(errno.ENOENT, "x"), None),
        (OSError("not a short write"), None),
        (ValueError("a bug of ours"), None),
        (KeyboardInterrupt(), None),
    ],
)
def test_an_error_of_the_system_is_recognised_in_what_libraries_make_of_it(error: BaseException, number: int | None) -> None:
    cause = cause_of(error)
    assert (cause and cause.number) == number


def test_what_nobody_explained_names_the_file() -> None:
    said = explained(FileNotFoundError(errno.ENOENT, "gone", "a/b.tsv"))
    assert said is not None and said.message == "a/b.tsv: no such file or directory"
    said = explained(OSError(errno.EIO, "", "a/b.tsv"))
    assert said is not None and said.message == "a/b.tsv: input/output error" and "network share" in said.hint
    assert explained(ZeroDivisionError()) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "isogloss", "corpora", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "isogloss: the output cannot be written (no space left on device)\nhint: free some space\n"

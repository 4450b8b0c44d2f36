"""Files that grow together while text is read, so that a killed process loses a few seconds of it.

`save` waits until the disk has all of them, and then writes how long each is, its checksum, and the caller's state. The next
session cuts them to that length and continues from that state.
"""

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from isogloss.checksums import head_digest
from isogloss.storage import LOCK, explaining_disk, make_folder, read_json, remove, write_json

logger = logging.getLogger(__name__)

STATE = "progress.json"
SAVE_SECONDS = 10.0  # how much work a kill -9 may cost


class GrowingFiles:
    """Append to the files `names` of a folder. `state` is what was saved last, empty at the beginning.

    If nothing was saved, or it is damaged, everything in the folder but its lock is removed first.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        make_folder(folder)
        self.folder = folder
        self.state, sizes, self._digests = self._saved(names)
        if not self.state:
            for path in folder.iterdir():
                if path.name != LOCK:
                    remove(path)
        with explaining_disk(folder):
            self._files = {name: (folder / name).open("r+b" if sizes[name] else "w+b") for name in names}
            for name, handle in self._files.items():
                handle.truncate(sizes[name])
                handle.seek(sizes[name])
        self._written = time.monotonic()

    def __enter__(self) -> Self:
        """Itself; the files are closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the files. What was not saved is lost."""
        for handle in self._files.values():
            with suppress(OSError):  # a full disk has been reported already
                handle.close()

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return self._files[name].tell()

    def append(self, name: str, values: "bytes | NDArray[Any]") -> None:
        """Write to the end of a file."""
        content = values if isinstance(values, bytes) else values.tobytes()
        with explaining_disk(self.folder):
            self._files[name].write(content)
        self._digests[name].update(content)

    def save(self, state: dict[str, Any], now: bool = False) -> None:
        """Save what was written and a state that belongs to it, if the last time was `SAVE_SECONDS` ago, or `now`."""
        if not now and time.monotonic() - self._written < SAVE_SECONDS:
            return
        with explaining_disk(self.folder):
            for handle in self._files.values():
                handle.flush()
                os.fsync(handle.fileno())
        sizes = {name: self.size(name) for name in self._files}
        checksums = {name: digest.hexdigest() for name, digest in self._digests.items()}
        write_json(self.folder / STATE, {"sizes": sizes, "checksums": checksums, "state": state})
        self._written = time.monotonic()

    def _saved(self, names: Sequence[str]) -> "tuple[dict[str, Any], dict[str, int], dict[str, hashlib._Hash]]":
        """The state that was saved last, the sizes of the files then, and their digests."""
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            saved = read_json(self.folder / STATE)
            digests = {name: head_digest(self.folder / name, saved["sizes"][name]) for name in names}
            if {name: digest.hexdigest() for name, digest in digests.items()} == saved["checksums"]:
                return dict(saved["state"]), saved["sizes"], digests
            logger.warning("%s is damaged; the text is read again", self.folder)
        return {}, dict.fromkeys(names, 0), {name: hashlib.sha256() for name in names}

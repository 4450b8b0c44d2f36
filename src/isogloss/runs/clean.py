"""Remove stored work and cache entries that can be computed or downloaded again.

    RUN/work             intermediate results of a finished run, or the progress of an unfinished one
    CACHE/vectors        teacher embeddings, a folder for each model
    CACHE/token-tables   token embeddings of static students
    CACHE/corpora        downloads

Models, results, records, prepared pairs and files of others are never removed. A folder in which a process works is
skipped, and so is what was used in the last hour.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from isogloss.errors import IsoglossError
from isogloss.models.static import TOKEN_TABLES
from isogloss.runs.record import RECORD
from isogloss.runs.run_folder import MODEL
from isogloss.storage import TEMPORARY_MARK, WORK, cache_folder, folder_lock, read_json, remove, remove_stale_files

TEMPORARY = "temporary files"
KINDS = {
    "training data": ("data-*", "replay-*", "vocabulary-*"),
    "teacher vectors": ("teacher-*",),
    "student vectors": ("untouched-*", "trained-*", "student-*", "negatives-*"),
    "activations": ("activations-*",),
    "checkpoints": ("checkpoints-*",),
    "labels and scores": ("silver-*", "measured-*"),
    "refused candidate": ("candidate",),
    TEMPORARY: (f".*{TEMPORARY_MARK}*",),
}
DAY = 24 * 3600.0  # seconds
JUST_NOW = 1 / 24  # days


@dataclass(frozen=True, slots=True)
class Item:
    """A file or folder: its kind, its size, the days since it was used, and why it is kept, if it is."""

    path: str
    kind: str
    bytes: int
    days: float
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Everything that was found, removed (or to be removed, in a dry run) or kept."""

    items: tuple[Item, ...] = ()
    dry_run: bool = False
    skipped: dict[str, str] = field(default_factory=dict)  # folders, and the reason

    @property
    def removed(self) -> int:
        """Bytes that were removed."""
        return sum(item.bytes for item in self.items if not item.kept)

    @property
    def found(self) -> int:
        """Bytes that were found."""
        return sum(item.bytes for item in self.items)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"removed": self.removed, "found": self.found, **asdict(self)}


def clean(
    runs: Sequence[str | Path] = (),
    cache: bool | str | Path = False,
    older_than: float | None = None,
    unfinished: bool = False,
    dry_run: bool = False,
) -> Cleaning:
    """Remove the work of finished runs, and old entries of the cache (`True`: the default folder).

    `older_than` is in days without use; without it, only temporary files are removed from the cache. The work of a run that has
    not finished is kept unless `unfinished` is given. `dry_run` removes nothing.
    """
    for name in runs:
        if not _is_run(Path(name)):
            raise IsoglossError(f"{name}: not the folder of a run", hint="name folders with a run.json, or use --cache")
    items: list[Item] = []
    skipped: dict[str, str] = {}
    for name in dict.fromkeys(map(Path, runs)):
        try:
            with folder_lock(name, "a process is working there", "wait for it"):
                items += _removed(_of_run(name, older_than, unfinished), dry_run)
                if not dry_run:
                    remove_stale_files(name)
        except IsoglossError as error:
            skipped[str(name)] = error.message.removeprefix(f"{name}: ")
    if cache:
        items += _removed(_of_cache(cache_folder() if cache is True else Path(cache), older_than), dry_run)
    return Cleaning(tuple(items), dry_run, skipped)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(stat.st_size for stat in _stats(path))


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of all files in a folder; files that vanish meanwhile are left out."""
    for file in path.rglob("*") if path.is_dir() else (path,):
        with suppress(OSError):
            if not file.is_dir():
                yield file.lstat()


def _is_run(folder: Path) -> bool:
    return folder.is_dir() and ((folder / RECORD).is_file() or (folder / WORK).is_dir())


def _removed(items: Iterator[Item], dry_run: bool) -> Iterator[Item]:
    for item in items:
        if not item.kept and not dry_run:
            remove(Path(item.path))
            if Path(item.path).exists():
                item = replace(item, kept="it cannot be removed")
        yield item


def _item(path: Path, kind: str, reason_to_keep: Callable[[float], str] = lambda days: "") -> Item:
    """`reason_to_keep` takes the days since it was last read or written, according to the file system."""
    latest = max((max(stat.st_mtime, stat.st_atime) for stat in _stats(path)), default=0.0)
    days = max(0.0, time.time() - latest) / DAY
    return Item(str(path), kind, size_of(path), round(days, 2), reason_to_keep(days))


def _of_run(folder: Path, older_than: float | None, unfinished: bool) -> Iterator[Item]:
    progress = "" if unfinished or _has_finished(folder) else "the run has not finished and continues from it"
    for place in (folder, folder / WORK):
        for path in sorted(place.glob("*")):
            kind = next((kind for kind, names in KINDS.items() if any(fnmatch(path.name, name) for name in names)), "")
            if kind == TEMPORARY:
                yield _item(path, kind)
            elif kind and place.name == WORK:
                yield _item(path, kind, lambda days: progress or ("newer" if days < (older_than or 0) else ""))


def _has_finished(folder: Path) -> bool:
    try:
        record = read_json(folder / RECORD)
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("status") == "finished" and (folder / MODEL / "modules.json").is_file()


def _of_cache(cache: Path, older_than: float | None) -> Iterator[Item]:
    def reason_to_keep(days: float) -> str:
        if older_than is None:
            return "name an age to remove it"
        return "just used" if days < JUST_NOW else "newer" if days < older_than else ""

    for path in sorted(cache.rglob(f".*{TEMPORARY_MARK}*")):
        yield _item(path, TEMPORARY, lambda days: "just used" if days < 1 else "")  # nothing takes a day to write
    kinds = {
        "teacher vectors": cache.glob("vectors/*"),
        "token tables": cache.glob(f"{TOKEN_TABLES}/*.npy"),
        "downloads": (path for path in cache.glob("corpora/*/*") if not path.parts[-2].startswith(".")),
    }
    for kind, paths in kinds.items():
        yield from (_item(path, kind, reason_to_keep) for path in sorted(paths))

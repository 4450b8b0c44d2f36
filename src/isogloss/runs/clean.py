"""What is kept on disk only to be quicker next time: how large it is, by kind, and away with what is not wanted.

    RUN/work           of a finished run: all that a run of the same recipe would find again; of an unfinished one its progress
    CACHE/vectors      teacher vectors, a folder for each model
    CACHE/token-tables CACHE/corpora

A model, its results, its record and its prepared pairs are never touched, nor are files that isogloss did not write. A folder
that a process works in is left alone, and so is what was used in the last hour.
"""

import time
from collections.abc import Iterator, Sequence
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

KINDS = {
    "training data": ("data-*", "replay-*", "vocabulary-*"),
    "teacher vectors": ("teacher-*",),
    "student vectors": ("untouched-*", "trained-*", "student-*", "negatives-*"),
    "activations": ("activations-*",),
    "checkpoints": ("checkpoints-*",),
    "labels and scores": ("silver-*", "measured-*"),
    "refused candidate": ("candidate",),
    "temporary files": (f".*{TEMPORARY_MARK}*",),
}
DAY, JUST_NOW = 24 * 3600.0, 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class Item:
    """Something on disk: what it is, how large, for how many days nobody used it; why it stays, if it does."""

    path: str
    kind: str
    bytes: int
    days: float
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What was found, and what of it was removed (or would be)."""

    items: tuple[Item, ...] = ()
    dry_run: bool = False
    skipped: dict[str, str] = field(default_factory=dict)  # folders that were left alone, and why

    @property
    def removed(self) -> int:
        """Bytes of all that was removed."""
        return sum(item.bytes for item in self.items if not item.kept)

    @property
    def found(self) -> int:
        """Bytes of all that is looked at."""
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
    """Remove the work of finished runs, and what is old in the cache (`True`: the usual one).

    `older_than` is in days without use: for the cache it must be given, or only leftovers of killed processes go. The work of
    a run that has not finished is its progress, and stays unless `unfinished`. `dry_run` removes nothing.
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
    """Bytes of a file, or of all files in a folder; what vanishes meanwhile counts nothing."""
    total = 0
    for file in (path,) if not path.is_dir() else path.rglob("*"):
        with suppress(OSError):
            total += file.lstat().st_size if not file.is_dir() else 0
    return total


def _is_run(folder: Path) -> bool:
    return folder.is_dir() and ((folder / RECORD).is_file() or (folder / WORK).is_dir())


def _removed(items: Iterator[Item], dry_run: bool) -> list[Item]:
    done = []
    for item in items:
        if not item.kept and not dry_run:
            remove(Path(item.path))
            if Path(item.path).exists():
                item = replace(item, kept="it cannot be removed")
        done.append(item)
    return done


def _item(path: Path, kind: str, kept: str = "") -> Item:
    return Item(str(path), kind, size_of(path), round(_unused_seconds(path) / DAY, 2), kept)


def _unused_seconds(path: Path) -> float:
    """Since when nobody wrote or read anything of it, as far as the file system tells."""
    latest = 0.0
    for file in [one for one in path.rglob("*") if not one.is_dir()] if path.is_dir() else [path]:
        with suppress(OSError):
            latest = max(latest, file.lstat().st_mtime, file.lstat().st_atime)
    return max(0.0, time.time() - latest)


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_run(folder: Path, older_than: float | None, unfinished: bool) -> Iterator[Item]:
    progress = "" if unfinished or _has_finished(folder) else "the run has not finished and goes on from it"
    for place in (folder, folder / WORK):
        for path in sorted(place.glob("*") if place.is_dir() else ()):
            kind = next((kind for kind, names in KINDS.items() if any(fnmatch(path.name, name) for name in names)), "")
            if kind == "temporary files":
                yield _item(path, kind)
            elif kind and place.name == WORK:
                item = _item(path, kind, progress)
                yield replace(item, kept="newer") if not progress and item.days < (older_than or 0) else item


def _has_finished(folder: Path) -> bool:
    try:
        known = read_json(folder / RECORD)
    except (OSError, ValueError):
        return False
    return isinstance(known, dict) and known.get("status") == "finished" and (folder / MODEL / "modules.json").is_file()


# ── the cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_cache(cache: Path, older_than: float | None) -> Iterator[Item]:
    for path in sorted(cache.rglob(f".*{TEMPORARY_MARK}*") if cache.is_dir() else ()):
        item = _item(path, "temporary files")
        yield replace(item, kept="just used") if item.days * DAY < DAY else item  # nothing takes a day to write
    places = {
        "teacher vectors": cache.glob("vectors/*"),
        "token tables": cache.glob(f"{TOKEN_TABLES}/*.npy"),
        "downloads": (path for path in cache.glob("corpora/*/*") if not path.parts[-2].startswith(".")),
    }
    for kind, paths in places.items():
        for path in sorted(paths):
            item = _item(path, kind)
            if older_than is None:
                yield replace(item, kept="name an age to remove it")
            elif item.days * DAY < JUST_NOW:
                yield replace(item, kept="just used")
            else:
                yield replace(item, kept="newer") if item.days < older_than else item

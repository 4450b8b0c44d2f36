"""Whether anyone looked for a test set in what a model learnt from.

A model that isogloss trained says in `isogloss_training.json` which evaluation files its text was scanned for, each with a hash
of the sentences that the scan found in it. The same hash of the file that is measured on tells whether it is the same text,
whatever the file is called by now. Where the record has no hash, names must do, and that is said:

    scanned                 every file of the set, by its content
    scanned, by name        every file, but of some only the name could be compared
    partly scanned          some of its files
    not scanned             none of them; "other text …": a file of that name was, but its sentences were not these
    not known               a model or a test set of which nothing is written down

The scan itself is `isogloss.corpora.leaks.scan`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.text.normalize import FORMS
from isogloss.errors import DataError
from isogloss.models.saving import TRAINING
from isogloss.shapes import COUNT, OBJECT, TEXT, check
from isogloss.storage import read_json

SHAPE = {"leak_scan": {"sets": [{"name": TEXT, "texts": COUNT, "hash?": TEXT}]}, "corpora?": OBJECT}
SCANNED, BY_NAME, PARTLY = "scanned", "scanned, by name", "partly scanned"
NOT_SCANNED, OTHER_TEXT, UNKNOWN = "not scanned", "not scanned (other text of that name was)", "not known"


@dataclass(frozen=True, slots=True)
class Origin:
    """A file of a test set: as the leak scan names it (`folder/file`), and where it is; on the hub it has no place."""

    name: str
    path: Path | None = None

    def __str__(self) -> str:
        """Its name, for messages."""
        return self.name


@dataclass(frozen=True, slots=True)
class ScannedSet:
    """An evaluation file that training text was scanned for; without a hash where an older record has none."""

    name: str
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a model says of its training: which corpora it learnt from, and what all of them were scanned for."""

    sets: tuple[ScannedSet, ...]
    corpora: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The evaluation files by name."""
        return tuple(one.name for one in self.sets)


def scan_of(model: Path | str) -> Scan | None:
    """What a saved model, or a finished run, says of its training; None where nothing is known of it."""
    for place in (Path(model), Path(model) / "model"):
        try:
            return _scan(check(read_json(place / TRAINING), SHAPE))
        except (OSError, ValueError):
            continue
    return None


def _scan(training: Mapping[str, Any]) -> Scan:
    sets = [one for one in training["leak_scan"]["sets"] if one["texts"]]
    corpora = tuple(name for name in training.get("corpora", {}) if name)
    return Scan(tuple(ScannedSet(one["name"], one.get("hash", "")) for one in sets), corpora)


def leak_state(origin: Sequence[Origin], scan: Scan | None) -> str:
    """Whether a model's training text was scanned for the files of a test set, in a few words."""
    if scan is None or not origin or any(file.path is None for file in origin):
        return UNKNOWN
    states = {_state(file.name, file.path, scan) for file in origin if file.path is not None}
    if states <= {SCANNED, BY_NAME}:
        return BY_NAME if BY_NAME in states else SCANNED
    if states & {SCANNED, BY_NAME}:
        return PARTLY
    return OTHER_TEXT if states == {OTHER_TEXT} else NOT_SCANNED


def _state(name: str, path: Path, scan: Scan) -> str:
    """The same of one file. Where a file was named itself, the scan calls it by its name without a folder."""
    hashes = {one.hash for one in scan.sets if one.hash}
    if hashes and any(_content(path, form) in hashes for form in FORMS):
        return SCANNED
    alike = [one for one in scan.sets if one.name in (name, path.name)]
    if not alike:
        return NOT_SCANNED
    return BY_NAME if any(not one.hash for one in alike) else OTHER_TEXT


def _content(path: Path, form: str) -> str:
    """The hash that a scan, which brings text to some form first, gives a file; "" where it finds no sentences in it."""
    try:
        known = path.stat()
        return _hashed(path, form, known.st_mtime_ns, known.st_size)
    except (OSError, DataError):
        return ""


@lru_cache(maxsize=4096)
def _hashed(path: Path, form: str, _changed: int, _size: int) -> str:
    """Read once, as long as the file stays as it is: many columns of a table, and many models, ask for the same files."""
    return LeakScanner(evaluation_sets([str(path)]), "exact", form).sets[0].hash

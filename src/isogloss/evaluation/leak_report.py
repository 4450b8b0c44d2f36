"""Whether the training text of a model was scanned for a test set.

A model trained by isogloss records in `isogloss_training.json` which evaluation files its text was scanned for, with a hash of
the sentences of each. The same hash is computed of the file that is measured on, so a renamed file is recognized. Older records
without a hash are compared by name:

    scanned                 every file of the set, by its content
    scanned, by name        every file, some of them only by their name
    partly scanned          some of its files
    not scanned             none of them; "other text …": a file with this name was, but with other sentences
    not known               nothing is recorded about the model or the test set

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
class SetFile:
    """A file of a test set: its name in the leak scan (`folder/file`), and its path, unless it is on the hub."""

    name: str
    path: Path | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Scan:
    """What a model was trained on, and the evaluation files that all of that was scanned for."""

    sets: tuple[tuple[str, str], ...]  # name and hash; older records have no hash
    corpora: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The evaluation files by name."""
        return tuple(name for name, _ in self.sets)


def scan_of(model: Path | str) -> Scan | None:
    """The record of a saved model or a finished run; None if there is none."""
    for place in (Path(model), Path(model) / "model"):
        try:
            training = check(read_json(place / TRAINING), SHAPE)
        except (OSError, ValueError):
            continue
        return recorded_scan(training)
    return None


def recorded_scan(training: Mapping[str, Any]) -> Scan:
    """The scan in the record of a model's training data."""
    sets = tuple((one["name"], one.get("hash", "")) for one in training["leak_scan"]["sets"] if one["texts"])
    return Scan(sets, tuple(name for name in training.get("corpora", {}) if name))


def leak_state(origin: Sequence[SetFile], scan: Scan | None) -> str:
    """Whether a model's training text was scanned for the files of a test set, in words."""
    if scan is None or not origin or any(file.path is None for file in origin):
        return UNKNOWN
    states = {_state(file.name, file.path, scan) for file in origin if file.path is not None}
    if states <= {SCANNED, BY_NAME}:
        return BY_NAME if BY_NAME in states else SCANNED
    if states & {SCANNED, BY_NAME}:
        return PARTLY
    return OTHER_TEXT if states == {OTHER_TEXT} else NOT_SCANNED


def _state(name: str, path: Path, scan: Scan) -> str:
    """The same for one file. A file that was named without its folder has no folder in the scan."""
    known = {content for _, content in scan.sets if content}
    if known and any(_content(path, form) in known for form in FORMS):
        return SCANNED
    alike = [content for named, content in scan.sets if named in (name, path.name)]
    if not alike:
        return NOT_SCANNED
    return OTHER_TEXT if all(alike) else BY_NAME


def _content(path: Path, form: str) -> str:
    """The hash of a file in a scan with this normalization; "" if it has no sentences."""
    try:
        known = path.stat()
        return _hashed(path, form, known.st_mtime_ns, known.st_size)
    except (OSError, DataError):
        return ""


@lru_cache(maxsize=4096)
def _hashed(path: Path, form: str, _changed: int, _size: int) -> str:
    """Read once while the file is unchanged: many columns and models ask for the same files."""
    return LeakScanner(evaluation_sets([str(path)]), "exact", form).sets[0].hash

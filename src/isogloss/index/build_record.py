"""What `isogloss index build` notes in an index: its model, and how far an unfinished build came.

Files have the note beside them (`docs.npy.json`), Parquet files in their metadata, databases in the comment of the table, in
the metadata of the collection or in the mapping of the index.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from isogloss.config.indexing import IndexPrecision, Metric
from isogloss.shapes import as_type, parse_json
from isogloss.shown import masked
from isogloss.storage import canonical_json, read_json, write_json

KEY = "isogloss"  # under which the note stands


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The model of an index, and its unfinished build: which one it is, and how many of its documents are stored."""

    model: str
    fingerprint: str
    dimension: int
    metric: Metric
    precision: IndexPrecision
    job: str = ""  # a hash of the documents and the model; empty if the index is complete
    done: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything is stored."""
        return not self.job

    def finished(self) -> Self:
        """The same after the last document."""
        return replace(self, job="", done=0)

    def as_dict(self) -> dict[str, Any]:
        """Plain data under the key "isogloss"."""
        return {KEY: asdict(self) | {"model": masked(self.model)}}

    def as_json(self) -> str:
        """The same as text."""
        return canonical_json(self.as_dict())


def record_in(value: Any) -> BuildRecord | None:  # noqa: ANN401 - whatever JSON can hold
    """The note in plain data or JSON; None if there is none that can be read."""
    try:
        content = parse_json(value) if isinstance(value, str | bytes) else value
        return as_type(content[KEY], BuildRecord, "ignore")
    except (ValueError, TypeError, KeyError):
        return None


def record_path(path: Path) -> Path:
    """Where the note of an index that is a file stands."""
    return path.with_name(f"{path.name}.json")


def read_record(path: Path) -> BuildRecord | None:
    """The note beside a file; None if there is none or it is damaged."""
    try:
        return record_in(read_json(record_path(path)))
    except (OSError, ValueError):
        return None


def write_record(path: Path, record: BuildRecord) -> None:
    """Write the note beside a file, with a checksum."""
    write_json(record_path(path), record.as_dict())

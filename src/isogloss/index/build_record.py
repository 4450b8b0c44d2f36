"""What `isogloss index build` notes in an index: its model, and how far an unfinished build came.

Files have the note beside them (`docs.npy.json`, with their checksums), Parquet files in their metadata too, databases in the
comment of the table, in the metadata of the collection or in the mapping of the index.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from isogloss.config.indexing import IndexPrecision, Metric
from isogloss.errors import DataError
from isogloss.shapes import TEXT, Each, as_type, check, parse_json
from isogloss.shown import masked
from isogloss.storage import canonical_json, file_checksum, read_json, write_json

KEY = "isogloss"  # under which the note stands
FILES = "files"  # beside it: the sha256 of each file of the index, by name
CHECKSUMS = {f"{FILES}?": Each(TEXT, TEXT)}


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
    """The note beside a file; None if there is none. Raises if it is damaged: it has the metric."""
    return record_in(_beside(path))


def write_record(path: Path, record: BuildRecord, files: Sequence[Path] = ()) -> None:
    """Write the note beside a file, with a checksum, and those of the index's files."""
    sums = {FILES: {file.name: file_checksum(file) for file in files}} if files else {}
    write_json(record_path(path), record.as_dict() | sums)


def refuse_damaged(path: Path, shown: str) -> None:
    """Raise if a file of an index is not as `isogloss index build` wrote it."""
    content = _beside(path)
    if record_in(content) is None:
        return
    for name, checksum in check(content, CHECKSUMS).get(FILES, {}).items():
        if file_checksum(path.with_name(name)) != checksum:
            raise DataError(
                f"{shown}: {path.with_name(name).name} is damaged or was changed after the index was built",
                hint=f"build it again with --replace; if you changed it on purpose, delete {record_path(path).name}",
            )


def _beside(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """What is in the file beside an index; None if there is none."""
    place = record_path(path)
    try:
        return read_json(place)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{place}: the note of an index is damaged",
            hint="delete it and the index, and build it again; if isogloss did not build the index, rename this file",
        ) from error

"""Where a downloaded file came from, kept beside it: `TED2020.en-de.zip` has its `TED2020.en-de.zip.origin.json`.

The manifests of stores repeat the license and version of what they were made from.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from isogloss.shapes import as_type
from isogloss.storage import read_json, write_json

SUFFIX = ".origin.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a file came from."""

    corpus: str
    version: str = ""
    license: str = ""
    url: str = ""
    sha256: str = ""
    dictionary: bool = False  # entries, not sentences: rules about sentences do not apply
    etag: str = ""  # of the downloaded file on the server, as are the next two; empty where it says nothing
    modified: str = ""
    size: int | None = None

    def write_beside(self, path: Path) -> None:
        """Write it next to its file."""
        write_json(origin_file(path), asdict(self))


def origin_file(path: Path) -> Path:
    """The file with the origin of `path`."""
    return path.with_name(path.name + SUFFIX)


def origin_of(path: Path) -> Origin | None:
    """The origin of `path`, if there is one beside it."""
    try:
        return as_type(read_json(origin_file(path)), Origin, "ignore")
    except (OSError, ValueError):
        return None

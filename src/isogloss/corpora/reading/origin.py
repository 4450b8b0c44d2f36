"""Where a corpus file came from, kept beside it: `TED2020.en-de.zip` has its `TED2020.en-de.zip.origin.json`.

What was downloaded keeps its licence and version; the manifest of everything made from it repeats them.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from isogloss.shapes import check, fields_shape
from isogloss.storage import read_json, write_json

SUFFIX = ".origin.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is known of a file's descent."""

    corpus: str
    version: str = ""
    licence: str = ""
    url: str = ""
    sha256: str = ""
    dictionary: bool = False  # entries, not sentences: rules about sentences do not apply

    def write_beside(self, path: Path) -> None:
        """Keep it next to the file it is about."""
        write_json(path.with_name(path.name + SUFFIX), asdict(self))


def origin_of(path: Path) -> Origin | None:
    """What is known of `path`, if anything was written down."""
    note = path.with_name(path.name + SUFFIX)
    try:
        found = check(read_json(note), fields_shape(Origin))
    except (OSError, ValueError):
        return None
    known = {one.name for one in fields(Origin)}
    return Origin(**{key: value for key, value in found.items() if key in known})

"""The folder of a file index that is being built, and the check that its files belong together."""

from pathlib import Path

from isogloss.errors import DataError

MARK = "finishing"  # in that folder while the finished files are moved to their places


def unfinished_folder(path: Path) -> Path:
    """Where the batches of an unfinished build are."""
    return path.with_name(f"{path.name}.unfinished")


def refuse_half_moved(path: Path, shown: str) -> None:
    """Raise if a build was killed while it replaced the files of an index."""
    if (unfinished_folder(path) / MARK).exists():
        raise DataError(
            f"{shown}: isogloss index build was interrupted while it moved the finished files",
            hint="run the same build again: it finishes at once",
        )

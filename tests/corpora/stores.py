"""Short ways to prepare: pairs that are easy to tell apart, settings that keep them, stores made of either."""

from pathlib import Path

from isogloss.config import CleaningSettings, LeakSettings
from isogloss.corpora.preparation.feeds import Feed, from_source
from isogloss.corpora.prepare import PrepareOptions, prepare
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.store import Store, open_store
from isogloss.types import Bitext, Pair

OPTIONS = PrepareOptions(cleaning=CleaningSettings(min_language=0), leaks=LeakSettings(level="off"))


def write(path: Path, rows: int, start: int = 0) -> Path:
    """A file of numbered sentences."""
    path.write_text("".join(f"sentence number {n} is here\tSatz Nummer {n} ist hier\n" for n in range(start, start + rows)))
    return path


def feeds(*names: Path) -> list[Feed]:
    """Files as `prepare_store` takes them."""
    return [from_source(source) for source in find_sources([str(name) for name in names])]


def prepared(rows: list[Pair], cleaning: CleaningSettings | None = None, held_out: float = 0.2) -> list[Pair]:
    """The pairs that stay."""
    return list(prepare(Bitext.of(rows), cleaning, held_out).bitext)


def stored(folder: Path, rows: list[Pair], cleaning: CleaningSettings) -> Store:
    """A store of pairs, a fifth of them held out."""
    prepare(Bitext.of(rows), cleaning, held_out=0.2, out=folder)
    return open_store(folder)


def stamps(folder: Path) -> dict[str, int]:
    """When each part in a folder was last written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.glob("*.parquet"))}

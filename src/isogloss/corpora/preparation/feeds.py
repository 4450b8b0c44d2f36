"""The inputs of a preparation: files, prepared stores or pairs in memory, each as blocks with a hash of its content."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from isogloss.corpora.leaks.scan import ScannedSet, scanned_sets
from isogloss.corpora.reading.blocks import Blocks, blocks_of
from isogloss.corpora.reading.languages import is_known
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import STANDARD_INPUT, Source
from isogloss.corpora.store import PAIRS, Store
from isogloss.errors import DataError
from isogloss.storage import canonical_json, content_hash, file_hash
from isogloss.types import TEST, TRAIN, Bitext

HEADER_BYTES = 4096
# Bytes of text per compressed byte, roughly; only the estimate of the remaining time depends on it.
_UNPACKED = {".gz": 2.7, ".xz": 3.4, ".zst": 2.8, ".bz2": 3.4, ".zip": 2.7, ".parquet": 2.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Pairs of one corpus from one place."""

    name: str
    corpus: str
    key: str  # hash of the content and of how it is read
    source_language: str
    blocks: Callable[[Faults], Blocks] = field(repr=False)
    language: str = ""  # of the target, if the whole feed has only one
    dictionary: bool = False
    license: str = ""
    version: str = ""
    text_bytes: float = 0.0  # estimated size of the text
    scanned: tuple[ScannedSet, ...] = ()  # evaluation sets whose text was removed before


def from_source(source: Source) -> Feed:
    """The feed of a file."""
    if source.path == STANDARD_INPUT:
        raise DataError("standard input must be written to a file before it is prepared", hint="name the file instead")
    files = [path for path in (source.path, source.other, source.scores) if path is not None]
    if any("\ud800" <= character <= "\udfff" for path in files for character in str(path)):
        raise DataError(f"{str(source.path)!r}: the file name is not UTF-8", hint="rename it")
    try:
        hashes = [file_hash(path) for path in files]
    except OSError as error:
        raise DataError(f"{source.name}: cannot be read ({error.strerror})", hint="check who may read the file") from error
    elsewhere = ("path", "other", "scores", "license", "version", "called")
    reading = {key: str(value) for key, value in asdict(source).items() if key not in elsewhere}
    return Feed(
        name=source.name,
        corpus=source.corpus,
        key=content_hash(canonical_json([reading, hashes])),
        source_language=source.source_language,
        blocks=lambda faults: stream(source, faults),
        language="" if _has_many_languages(source) else source.language,
        dictionary=source.dictionary,
        license=source.license,
        version=source.version,
        text_bytes=_text_bytes(files),
    )


def _has_many_languages(source: Source) -> bool:
    """Whether a table whose file name has one language pair has more languages in its header."""
    if not source.language or source.format not in ("tsv", "csv"):
        return False
    with source.open() as raw:
        first = raw.read(HEADER_BYTES).split(b"\n", 1)[0].decode("utf-8", errors="replace")
    cells = [cell.strip('"\r ').casefold() for cell in re.split(r"[\t,;]", first)]
    return source.source_language in cells and sum(len(cell) < 8 and is_known(cell) for cell in cells) > 2


def from_bitext(bitext: Bitext, dictionaries: Callable[[str], bool] = lambda corpus: False) -> list[Feed]:
    """The feeds of pairs in memory, one per corpus."""
    if unknown := set(bitext.table.column("split").unique().to_pylist()) - {"", TRAIN, TEST}:
        raise DataError(f"a split is {min(map(str, unknown))!r}", hint="it must be train, test, or empty")
    corpora = {corpus: bitext.where(corpus=corpus) for corpus in bitext.table.column("corpus").unique().to_pylist()}
    return [
        Feed(
            name=corpus or "pairs",
            corpus=corpus,
            key=pairs.hash,
            source_language=bitext.source_language,
            blocks=lambda faults, pairs=pairs: blocks_of(pairs.in_blocks()),  # type: ignore[misc]
            dictionary=dictionaries(corpus),
            text_bytes=float(pairs.table.nbytes),
        )
        for corpus, pairs in corpora.items()
    ]


def from_store(store: Store) -> list[Feed]:
    """The feeds of a prepared store, one per corpus, to be prepared again together with others."""
    scanned = scanned_sets(store.manifest["leak_scan"])
    files: dict[str, list[str]] = {corpus: [] for corpus in store.manifest["corpora"]}
    for part in store.manifest["parts"]:
        files[part["corpus"]].append(part["file"])
    return [
        Feed(
            name=f"{store.folder.name}/{corpus}",
            corpus=corpus,
            key=content_hash(store.hash, corpus),
            source_language=store.source_language,
            blocks=lambda faults, files=files[corpus]: store.blocks(files),  # type: ignore[misc]
            dictionary=known["dictionary"],
            license=known["license"],
            version=known["version"],
            text_bytes=_text_bytes(store.folder / PAIRS / file for file in files[corpus]),
            scanned=scanned,
        )
        for corpus, known in store.manifest["corpora"].items()
    ]


def _text_bytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size * _UNPACKED.get(file.suffix, 1.0) for file in files if file.is_file())

"""A prepared store: a folder of Parquet files and a manifest that says where the pairs came from and what was dropped.

    STORE/manifest.json     sources, versions, licenses, rules, thresholds, counts, leak scan, names of the parts
    STORE/pairs/*.parquet   the pairs that are kept: source, target, language, corpus, split
    STORE/dropped/*.parquet the dropped pairs with their reasons
    STORE/scored/*.parquet  all pairs with the scores of every rule, so that thresholds can change without scoring again

Parts are named by what they were made from, so adding a corpus writes new parts and leaves the others alone. The manifest is
written last: until then a reader sees the old store.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.amounts import amount
from isogloss.corpora.preparation.manifest_schema import check_manifest
from isogloss.corpora.reading.blocks import Blocks, blocks_of
from isogloss.corpora.reading.compression import PARQUET_FAULTS
from isogloss.corpora.reading.malformed import unread_in_words
from isogloss.errors import DataError
from isogloss.shapes import Misfit
from isogloss.storage import file_hash, read_json
from isogloss.types import ROWS_A_BLOCK, SCHEMA, TEST, TRAIN, Bitext, PairCounts

MANIFEST, MARK, FORMAT = "manifest.json", "isogloss_store", 1
PAIRS, DROPPED, SCORED = "pairs", "dropped", "scored"
AGAIN = "run the same isogloss prepare again"


@dataclass(frozen=True, slots=True)
class Store:
    """A prepared store on disk, and its manifest."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def hash(self) -> str:
        """Hash of the pairs and their order."""
        return str(self.manifest["hash"])

    @property
    def source_language(self) -> str:
        """The language of the source side."""
        return str(self.manifest["source_language"])

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages, sorted."""
        return tuple(sorted(self.manifest["languages"]))

    def __len__(self) -> int:
        return int(self.manifest["rows_out"])

    def pair_counts(self) -> PairCounts:
        """Pairs by corpus, language and split, from the manifest: no text is read."""
        lines = self.manifest["waterfall"]
        return PairCounts({(one["corpus"], one["language"], split): one[split] for one in lines for split in (TEST, TRAIN)})

    def tables(self, columns: Sequence[str] = SCHEMA.names, files: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The pairs of all parts, or of some files, one row group at a time, in order."""
        checksums = {part["file"]: part["sha256"] for part in self.manifest["parts"]}
        for name in checksums if files is None else files:
            path = self.folder / PAIRS / name
            _refuse_damaged(path, checksums[name])
            try:
                # In this thread: Arrow's own threads keep what they free, more with every group.
                with pq.ParquetFile(path, pre_buffer=False) as file:
                    if not file.schema_arrow.equals(SCHEMA):  # Arrow ignores missing columns
                        raise DataError(f"{path}: not a part of a store", hint=AGAIN)
                    for group in range(file.num_row_groups):
                        yield file.read_row_group(group, columns=list(columns), use_threads=False)
            except PARQUET_FAULTS as error:
                raise DataError(f"{path}: a part of the store cannot be read ({error})", hint=AGAIN) from error

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs, or those of one split, a bounded number at a time, in order."""
        for table in self.tables():
            chosen = table if split is None else table.filter(pc.equal(table.column("split"), split))
            del table  # before the next is read
            for start in range(0, chosen.num_rows, ROWS_A_BLOCK):
                yield chosen.slice(start, ROWS_A_BLOCK)
            del chosen

    def bitext(self, languages: Sequence[str] = ()) -> Bitext:
        """All pairs, or those of some languages, in memory."""
        wanted = pa.array(list(languages), pa.string())
        tables = [SCHEMA.empty_table()]
        for table in self.tables():
            tables.append(table.filter(pc.is_in(table.column("language"), wanted)) if languages else table)
        joined = pa.concat_tables(tables)
        # One chunk per column, or as few as Arrow allows.
        return Bitext(joined.combine_chunks(), self.source_language)

    def blocks(self, files: Sequence[str] | None = None) -> Blocks:
        """The pairs of all parts, or of some files, as a reader gives them: for another preparation."""
        return blocks_of(self.tables(files=files))


def _refuse_damaged(path: Path, checksum: str) -> None:
    """Raise if a part is not what the manifest says; an unchanged file is checked once."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return  # reading it explains that
    if _checksum(path, there.st_ino, there.st_size, there.st_mtime_ns) != checksum:
        raise DataError(f"{path}: this part of the store is damaged", hint=AGAIN)


@cache
def _checksum(path: Path, inode: int, size: int, modified: int) -> str:
    return file_hash(path)


def training_data(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a trained model should record: where its pairs came from and which evaluation sets they were checked against."""
    kept = {
        key: manifest[key] for key in ("hash", "source_language", "rows_in", "rows_out", "languages", "corpora", "leak_scan")
    }
    return kept | {"dropped": {drop["rule"]: drop["count"] for drop in manifest["dropped"] if drop["count"]}}


def unread(manifest: Mapping[str, Any]) -> str:
    """What was skipped in reading, in words; empty if nothing was."""
    first = next((source["first_fault"] for source in manifest["sources"] if source["first_fault"]), "")
    return unread_in_words(manifest["skipped_lines"], first, manifest.get("passed_over", {}))


def leak_scan_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The leak scan in short: the sets, the level, how many pairs were removed."""
    scan = manifest["leak_scan"]
    return {
        "level": scan["level"],
        "sets": list(dict.fromkeys(one["name"] for one in scan["sets"] if one["texts"])),
        "removed": sum(scan["removed"].values()),
    }


def leaks_in_words(scan: dict[str, Any]) -> str:
    """The result of the scan as a sentence."""
    more = len(scan["sets"]) - 3
    checked = ", ".join([*scan["sets"][:3], *([amount(more, "more set")] if more > 0 else []), "held-out rows"])
    if scan["removed"]:
        were = "was" if scan["removed"] == 1 else "were"
        return f"{amount(scan['removed'], 'pair')} of the checked test sets {were} removed from training ({checked})."
    return f"No training pair appears in the checked test sets ({checked})."


def checked_in_words(scan: Mapping[str, Any]) -> str:
    """What the training text was compared with, now and in the stores it was made from, as sentences."""
    found, before = (
        [one for one in scan["sets"] if one["texts"] and one.get("before", False) == earlier] for earlier in (False, True)
    )
    text = "Checked against the held-out rows only; isogloss prepare --against adds evaluation sets."
    if found:
        texts = amount(sum(one["texts"] for one in found), "text")
        text = f"Checked against {texts} of {_sets(found)} (level: {scan['level']}) and the held-out rows."
    if empty := sum(not one["texts"] for one in scan["sets"]):
        text += f" {amount(empty, 'file')} had no sentences."
    if before:
        text += f" Its input stores had all been checked against {_sets(before)}."
    return text


def _sets(found: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(found)} evaluation sets" if len(found) > 1 else str(found[0]["name"])


def is_store(path: Path) -> bool:
    """Whether a folder is a prepared store."""
    return read_manifest(path) is not None


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a store, or None."""
    try:
        found = read_json(folder / MANIFEST)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and MARK in found else None


def open_store(folder: Path | str) -> Store:
    """Open what `isogloss prepare` wrote."""
    path = Path(folder)
    manifest = read_manifest(path)
    if manifest is None:
        if (path / MANIFEST).is_file():
            raise DataError(
                f"{path}: not a prepared store: its {MANIFEST} is damaged, or belongs to something else", hint=AGAIN
            )
        raise DataError(f"{path}: not a prepared store", hint="create one with isogloss prepare FILES --out FOLDER")
    if manifest[MARK] != FORMAT:
        other = f"written by another version of isogloss (format {str(manifest[MARK])[:40]})"
        raise DataError(f"{path}: {other}", hint="run isogloss prepare again")
    try:
        check_manifest(manifest, path, PAIRS)
    except Misfit as error:
        raise DataError(f"{path}: its {MANIFEST} is not that of a store: {error}", hint=AGAIN) from error
    return Store(path, manifest)

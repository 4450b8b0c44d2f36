"""The last step of a preparation: final parts, and the manifest that accounts for them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.config import LeakSettings, as_dict
from isogloss.corpora.leaks.scan import LeakScanner, scanned_before
from isogloss.corpora.preparation import drop_counts as account
from isogloss.corpora.preparation.auto_thresholds import Threshold, as_rows
from isogloss.corpora.preparation.drop_counts import Line
from isogloss.corpora.preparation.pair_selection import KEPT, LEAK_REASONS, NEAR_COPY, Scored, Selection
from isogloss.corpora.preparation.scored_parts import ScoredFeed, passed_over
from isogloss.corpora.preparation.write_parts import examples, write_dropped
from isogloss.corpora.store import DROPPED, FORMAT, MARK, PAIRS, open_store
from isogloss.errors import DataError
from isogloss.storage import atomic_write, content_hash, file_checksum, file_hash, make_folder
from isogloss.types import SCHEMA, TEST, TRAIN


def write_parts(selection: Selection, out: Path, threads: int = 1) -> list[str]:
    """Write the rows that stay of every part, and beside them those that go; whole parts that are there stay as they are."""
    make_folder(out / PAIRS)
    make_folder(out / DROPPED)
    try:
        known = {part["file"]: (part["sha256"], part.get("dropped_sha256", "")) for part in open_store(out).manifest["parts"]}
    except DataError:  # there is none yet, or a damaged one, which is written again
        known = {}
    with ThreadPoolExecutor(max(1, threads)) as pool:  # packing and writing happen outside of Python's lock
        return list(pool.map(lambda part: _write_part(part, selection.reasons, out, known), selection.parts))


def _write_part(part: Scored, reasons: Sequence[str], out: Path, known: Mapping[str, tuple[str, str]]) -> str:
    decided = content_hash(part.reasons.tobytes(), part.test.tobytes(), *reasons)[:8]
    name = f"{part.path.stem}-{decided}.parquet"
    pairs, dropped = out / PAIRS / name, out / DROPPED / name
    if known.get(name) != (file_checksum(pairs), file_checksum(dropped)):  # new, missing, or damaged
        write_dropped(part, reasons, dropped)
        _write_kept(part, pairs)
    return name


def _write_kept(part: Scored, path: Path) -> None:
    splits = pa.array([TRAIN, TEST])
    with atomic_write(path) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for rows, table in part.batches(["source", "target", "language"]):
            kept = np.flatnonzero(part.reasons[rows] == KEPT)
            some = table.take(pa.array(kept))
            split = splits.take(pa.array(part.test[rows][kept].astype(np.int8)))
            writer.write_table(pa.table([*some.columns, pa.repeat(part.corpus, len(kept)), split], schema=SCHEMA))


def manifest_of(
    scored: Sequence[ScoredFeed],
    selection: Selection,
    lines: Sequence[Line],
    files: Sequence[str],
    leaks: LeakSettings,
    guard: LeakScanner,
    chosen: dict[tuple[str, str], Threshold],
) -> dict[str, Any]:
    """Everything there is to know of a store. Nothing in it depends on when or where it was made."""
    every, cleaning = account.total(lines), selection.settings
    only_if_found = (*LEAK_REASONS, *((NEAR_COPY,) if cleaning.duplicates != "near" else ()))
    order = [name for name in selection.reasons[1:] if name in every.dropped or name not in only_if_found]
    out = selection.parts[0].path.parents[1]
    shown = examples([out / DROPPED / file for file in files])
    parts: list[dict[str, Any]] = [
        {"file": file, "corpus": line.corpus, "rows": line.kept}
        | {"sha256": file_hash(out / PAIRS / file), "dropped_sha256": file_hash(out / DROPPED / file)}
        for file, line in zip(files, lines, strict=True)
    ]
    before = scanned_before((one.feed.scanned for one in scored if one.rows), guard.sets)
    return {
        MARK: FORMAT,
        "hash": content_hash(scored[0].feed.source_language, *(one["sha256"] for one in parts)),
        "source_language": scored[0].feed.source_language,
        "rows_in": every.rows_in,
        "rows_out": every.kept,
        "dropped": [
            {"rule": name, "count": every.dropped.get(name, 0), "examples": [one.as_dict() for one in shown.get(name, [])]}
            for name in order
        ],
        "languages": {line.language: _counts(line) for line in account.grouped(lines, "language")},
        "corpora": {line.corpus: _counts(line) | _descent(scored, line.corpus) for line in account.grouped(lines, "corpus")},
        "waterfall": [asdict(line) for line in account.grouped(lines, "corpus", "language")],
        "sources": [_source(one) for one in scored],
        "skipped_lines": sum(one.skipped for one in scored),
        "passed_over": passed_over(scored),
        "settings": {
            "cleaning": _placeless(as_dict(cleaning)),
            "leaks": _placeless(as_dict(leaks)),
            "held_out": selection.held_out,
        },
        "thresholds": as_rows(chosen),
        "leak_scan": {
            "level": leaks.level,
            "sets": [asdict(one) for one in (*guard.sets, *before)],
            "removed": {name: every.dropped.get(name, 0) for name in LEAK_REASONS},
        },
        "parts": parts,
    }


def _counts(line: Line) -> dict[str, Any]:
    return {"rows_in": line.rows_in, TRAIN: line.train, TEST: line.test}


def _descent(scored: Sequence[ScoredFeed], corpus: str) -> dict[str, Any]:
    """Licence, version and kind of a corpus: what its files say, each once."""
    own = [one.feed for one in scored if one.feed.corpus == corpus]
    return {
        "licence": ", ".join(sorted({feed.licence for feed in own if feed.licence})),
        "version": ", ".join(sorted({feed.version for feed in own if feed.version})),
        "dictionary": any(feed.dictionary for feed in own),
    }


def _source(one: ScoredFeed) -> dict[str, Any]:
    return {
        "name": _name(one.feed.name),
        "corpus": one.feed.corpus,
        "licence": one.feed.licence,
        "version": one.feed.version,
        "key": one.key,
        "rows": one.rows,
        "skipped_lines": one.skipped,
        "first_fault": one.first_fault,
        "passed_over": one.passed_over,
    }


def _placeless(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the names of files and models, but not the folders of this machine."""
    places = {"against": lambda names: [_name(name) for name in names], "tokenizer": _name, "similarity_model": _name}
    return {key: places[key](value) if key in places else value for key, value in settings.items()}


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]

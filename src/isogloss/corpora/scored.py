"""Scored parts on disk: one for every feed and language, made once and found again by name.

STORE/scored/CORPUS.LANGUAGE-KEY.parquet    the pairs with the scores of every rule
STORE/scored/KEY.json                       which languages of a feed are scored, and how many lines were left out
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora.cleaning.judgement import Judge
from isogloss.corpora.faults import Faults
from isogloss.corpora.feeds import Feed, only
from isogloss.corpora.leaks import Guard
from isogloss.corpora.scoring import Scoring, add_similarity, score_block
from isogloss.corpora.workers import Workers
from isogloss.storage import content_hash, read_json, replacing, write_json

ROWS_A_GROUP = 16_384
UNCOMPRESSED = ("source_hash", "target_hash", "pair_hash", "signature")  # random numbers do not get smaller


@dataclass(frozen=True, slots=True)
class ScoredFeed:
    """What is on disk of one feed: a part a language, and the lines that could not be read."""

    feed: Feed
    key: str
    rows: dict[str, int]  # by language
    skipped: int
    first_fault: str
    made: bool = True  # now, and not found on disk

    def part(self, language: str) -> str:
        """The name of a language's part, without a suffix."""
        safe = re.sub(r"[^\w.+-]+", "_", self.feed.corpus)[:60] or "pairs"
        return f"{safe}.{language}-{self.key[:16]}"


class _Writers:
    """One Parquet file a language, written together; rows wait until they make a whole row group.

    Groups are cut by the rows of their own language alone, so a part does not depend on what was read beside it.
    """

    def __init__(self, folder: Path, name: Callable[[str], str], stack: ExitStack) -> None:
        self._folder, self._name, self._stack = folder, name, stack
        self._files: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, pa.Table] = {}
        self.rows: dict[str, int] = {}

    def add(self, table: pa.Table) -> None:
        languages = pc.unique(table.column("language")).to_pylist()
        for language in languages:
            own = table if len(languages) == 1 else table.filter(pc.equal(table.column("language"), language))
            self.rows[language] = self.rows.get(language, 0) + own.num_rows
            before = self._waiting.pop(language, None)
            own = own if before is None else pa.concat_tables([before, own])
            whole = own.num_rows - own.num_rows % ROWS_A_GROUP
            if whole:
                self._write(language, own.slice(0, whole))
            self._waiting[language] = own.slice(whole)

    def _write(self, language: str, table: pa.Table) -> None:
        if language not in self._files:
            path = self._stack.enter_context(replacing(self._folder / f"{self._name(language)}.parquet"))
            self._files[language] = self._stack.enter_context(pq.ParquetWriter(path, table.schema, **_writing(table.schema)))
        self._files[language].write_table(table.combine_chunks(), row_group_size=ROWS_A_GROUP)

    def finish(self) -> None:
        for language, table in self._waiting.items():
            if table.num_rows:
                self._write(language, table)


@dataclass(slots=True)
class Scorer:
    """Makes sure that every feed is scored."""

    folder: Path
    workers: Workers
    guard: Guard
    on_error: str = "fail"
    judge: Judge | None = None
    on_rows: Callable[[Feed, int, int], None] = field(default=lambda feed, rows, text: None)

    def score(self, feed: Feed, scoring: Scoring, wanted: Sequence[str]) -> ScoredFeed:
        """Score what is missing of a feed; `wanted` languages only, or all that it has when none are named."""
        key = content_hash(feed.key, scoring.key(self.guard))
        index = self.folder / f"{key[:16]}.json"
        known = self._read(index)
        kept = ScoredFeed(feed, key, known.get("rows", {}), known.get("skipped", 0), known.get("first_fault", ""))
        needs = scoring.needs()
        if known and not (set(needs) <= set(known.get("scored", ())) and self._is_whole(kept)):
            known = {}
        have: dict[str, int] = known.get("rows", {})
        told = [feed.language] if feed.language else []
        if known.get("whole") or (wanted and all(one in have for one in (told or wanted))):
            Faults(self.on_error).replay(kept.skipped, kept.first_fault)
            rows = {one: have[one] for one in sorted(have) if have[one] and (not wanted or one in wanted)}
            return replace(kept, rows=rows, made=False)
        missing = [one for one in wanted if one not in have]
        found = self._make(ScoredFeed(feed, key, {}, 0, ""), scoring, missing)
        have |= {one: found.rows.get(one, 0) for one in (missing or found.rows)}
        whole = not wanted
        fresh = {"rows": have, "whole": whole, "skipped": found.skipped, "first_fault": found.first_fault, "scored": needs}
        write_json(index, fresh)
        rows = {one: have[one] for one in sorted(have) if have[one] and (not wanted or one in wanted)}
        return ScoredFeed(feed, key, rows, found.skipped, found.first_fault)

    def _is_whole(self, kept: ScoredFeed) -> bool:
        """Whether every part that was written down is there, and has its rows."""
        return all(
            rows_of(self.folder / f"{kept.part(language)}.parquet") == rows for language, rows in kept.rows.items() if rows
        )

    def _read(self, index: Path) -> dict[str, Any]:
        try:
            known = read_json(index)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) and isinstance(known.get("rows"), dict) else {}

    def _make(self, empty: ScoredFeed, scoring: Scoring, missing: Sequence[str]) -> ScoredFeed:
        faults = Faults(self.on_error)
        feed = empty.feed
        blocks = only(feed, missing, faults) if missing else feed.blocks(faults)
        with ExitStack() as stack:
            writers = _Writers(self.folder, empty.part, stack)
            for block in self._scored(blocks, scoring):
                writers.add(block)
                self.on_rows(feed, block.num_rows, block.column("source").nbytes + block.column("target").nbytes)
            writers.finish()
        return ScoredFeed(feed, empty.key, writers.rows, faults.count, _without_folder(faults.first, feed.name))

    def _scored(self, blocks: Iterator[pa.Table], scoring: Scoring) -> Iterator[pa.Table]:
        for block in self.workers.map(score_block, blocks, scoring):
            yield add_similarity(block, scoring, self.judge) if self.judge and scoring.settings.similarity_model else block


def _writing(schema: pa.Schema) -> dict[str, Any]:
    """How a part is written: quickly, since it is read once or twice."""
    packed = {name: "NONE" if name in UNCOMPRESSED else "lz4" for name in schema.names}
    dictionaries = [name for name in schema.names if name in ("language", "split")]
    return {"compression": packed, "use_dictionary": dictionaries, "write_page_checksum": True}


def rows_of(path: Path) -> int | None:
    """How many rows a Parquet file has; None where it is not there or cannot be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return None


def _without_folder(message: str, name: str) -> str:
    """A message without the folders of this machine: what is kept must not depend on where the file lay."""
    folder = name.rpartition("/")[0]
    return message.replace(f"{folder}/", "") if folder else message

"""Scored parts on disk: one for every feed and language, made once and found again by name.

STORE/scored/CORPUS.LANGUAGE-KEY.parquet    the pairs with the scores of every rule
STORE/scored/KEY.json                       which languages of a feed are scored, and what was left out in reading it
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.preparation.feeds import Feed, only
from isogloss.corpora.preparation.manifest_schema import CODE
from isogloss.corpora.preparation.score_blocks import Scoring, add_similarity, score_block
from isogloss.corpora.preparation.workers import Workers
from isogloss.corpora.reading.malformed import Faults
from isogloss.shapes import COUNT, Each, Exactly, check, fields_shape
from isogloss.storage import atomic_write, content_hash, file_checksum, file_hash, read_json, write_json

logger = logging.getLogger(__name__)

ROWS_A_GROUP = 16_384
UNCOMPRESSED = ("source_hash", "target_hash", "pair_hash", "signature")  # random numbers do not get smaller


@dataclass(frozen=True, slots=True)
class ScoredFeed:
    """What is on disk of one feed: a part a language, the lines that could not be read, the entries that are no pairs."""

    feed: Feed
    key: str
    rows: dict[str, int] = field(default_factory=dict)  # by language
    skipped: int = 0
    first_fault: str = ""
    passed_over: dict[str, int] = field(default_factory=dict)  # by their kind
    made: bool = True  # now, and not found on disk

    def part(self, language: str) -> str:
        """The name of a language's part, without a suffix."""
        safe = re.sub(r"[^\w.+-]+", "_", self.feed.corpus)[:60] or "pairs"
        return f"{safe}.{language}-{self.key[:16]}"


@dataclass(frozen=True, slots=True)
class _Index:
    """What KEY.json says."""

    rows: dict[str, int] = field(default_factory=dict)  # by language
    checksums: dict[str, str] = field(default_factory=dict)  # of the parts, by language
    whole: bool = False  # all languages were read, and not some of them
    skipped: int = 0
    first_fault: str = ""
    passed_over: dict[str, int] = field(default_factory=dict)
    scored: list[str] = field(default_factory=list)  # names of the scores, as `Scoring.needs` has them


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
            path = self._stack.enter_context(atomic_write(self._folder / f"{self._name(language)}.parquet"))
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
    guard: LeakScanner
    on_error: str = "fail"
    judge: SimilarityModel | None = None
    on_rows: Callable[[Feed, int, int], None] = field(default=lambda feed, rows, text: None)

    def score(self, feed: Feed, scoring: Scoring, wanted: Sequence[str]) -> ScoredFeed:
        """Score what is missing of a feed; `wanted` languages only, or all that it has when none are named."""
        one = ScoredFeed(feed, content_hash(feed.key, scoring.key(self.guard)), made=False)
        index = self.folder / f"{one.key[:16]}.json"
        needs = scoring.needs()
        known = self._known(index, one, needs)
        told = [feed.language] if feed.language else wanted
        if known.whole or (wanted and all(language in known.rows for language in told)):
            Faults(self.on_error).replay(known.skipped, known.first_fault)
        else:
            missing = [language for language in wanted if language not in known.rows]
            found = replace(self._make(one, scoring, missing), whole=not wanted, scored=needs)
            known = replace(
                found, rows=known.rows | dict.fromkeys(missing, 0) | found.rows, checksums=known.checksums | found.checksums
            )
            write_json(index, asdict(known))
            one = replace(one, made=True)
        rows = {name: known.rows[name] for name in sorted(known.rows) if known.rows[name] and (not wanted or name in wanted)}
        return replace(
            one, rows=rows, skipped=known.skipped, first_fault=known.first_fault, passed_over=dict(known.passed_over)
        )

    def _known(self, index: Path, one: ScoredFeed, needs: Sequence[str]) -> "_Index":
        """What an earlier preparation wrote down, if it has all scores that are needed, and its parts are all there."""
        try:
            known = _Index(**check(read_json(index), Exactly(fields_shape(_Index) | {"rows?": Each(CODE, COUNT)})))
        except (OSError, ValueError):  # not there, no JSON, not ours, or of a version with other fields
            return _Index()
        if not set(needs) <= set(known.scored):
            return _Index()
        found = {language: file_checksum(self._path(one, language)) for language, rows in known.rows.items() if rows}
        if found != known.checksums:
            logger.warning("%s: kept scores are damaged; %s is scored again", self.folder, one.feed.corpus)
            return _Index()
        return known

    def _path(self, one: ScoredFeed, language: str) -> Path:
        return self.folder / f"{one.part(language)}.parquet"

    def _make(self, one: ScoredFeed, scoring: Scoring, missing: Sequence[str]) -> "_Index":
        faults = Faults(self.on_error)
        blocks = only(one.feed, missing, faults) if missing else one.feed.blocks(faults)
        with ExitStack() as stack:
            writers = _Writers(self.folder, one.part, stack)
            for block in self._scored(blocks, scoring):
                writers.add(block)
                self.on_rows(one.feed, block.num_rows, block.column("source").nbytes + block.column("target").nbytes)
            writers.finish()
        first, passed_over = _without_folder(faults.first, one.feed.name), dict(sorted(faults.passed_over.items()))
        sums = {language: file_hash(self._path(one, language)) for language, rows in writers.rows.items() if rows}
        return _Index(writers.rows, sums, skipped=faults.count, first_fault=first, passed_over=passed_over)

    def _scored(self, blocks: Iterator[pa.Table], scoring: Scoring) -> Iterator[pa.Table]:
        for block in self.workers.map(score_block, blocks, scoring):
            yield add_similarity(block, scoring, self.judge) if self.judge and scoring.settings.similarity_model else block


def _writing(schema: pa.Schema) -> dict[str, Any]:
    """How a part is written: quickly, since it is read once or twice."""
    packed = {name: "NONE" if name in UNCOMPRESSED else "lz4" for name in schema.names}
    dictionaries = [name for name in schema.names if name in ("language", "split")]
    return {"compression": packed, "use_dictionary": dictionaries}


def passed_over(scored: Iterable[ScoredFeed]) -> dict[str, int]:
    """How many entries of all feeds are no pairs, by their kind."""
    return dict(sorted(sum((Counter(one.passed_over) for one in scored), Counter[str]()).items()))


def _without_folder(message: str, name: str) -> str:
    """A message without the folders of this machine: what is kept must not depend on where the file lay."""
    folder = name.rpartition("/")[0]
    return message.replace(f"{folder}/", "") if folder else message

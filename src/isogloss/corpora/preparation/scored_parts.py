"""Scored parts on disk: one per feed and language, made once and found again by name.

STORE/scored/CORPUS.LANGUAGE-KEY.parquet    the pairs with the scores of every rule
STORE/scored/KEY.json                       which languages of a feed are scored, and what was skipped in reading it
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.preparation.feeds import Feed
from isogloss.corpora.preparation.manifest_schema import CODE
from isogloss.corpora.preparation.score_blocks import Scoring, add_similarity, score_block
from isogloss.corpora.preparation.workers import Workers
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.text.arrays import rows_by
from isogloss.shapes import COUNT, Each, as_type, check
from isogloss.storage import atomic_write, content_hash, file_checksum, file_hash, read_json, write_json

logger = logging.getLogger(__name__)

ROWS_PER_GROUP = 16_384
UNCOMPRESSED = ("source_hash", "target_hash", "pair_hash", "signature")  # random numbers do not compress


@dataclass(frozen=True, slots=True)
class ScoredIndex:
    """The content of KEY.json."""

    rows: dict[str, int] = field(default_factory=dict)  # by language
    checksums: dict[str, str] = field(default_factory=dict)  # of the parts, by language
    whole: bool = False  # all languages of the feed were read
    skipped: int = 0  # lines
    first_fault: str = ""
    passed_over: dict[str, int] = field(default_factory=dict)  # entries that gave no pairs, by kind
    scored: list[str] = field(default_factory=list)  # the scores, as `Scoring.needs` names them


@dataclass(frozen=True, slots=True)
class ScoredFeed:
    """The scored parts of one feed."""

    feed: Feed
    key: str
    index: ScoredIndex = field(default_factory=ScoredIndex)  # of the wanted languages
    made: bool = True  # in this call, not found on disk

    def part(self, language: str) -> str:
        """The file name of a language's part."""
        safe = re.sub(r"[^\w.+-]+", "_", self.feed.corpus)[:60] or "pairs"
        return f"{safe}.{language}-{self.key[:16]}.parquet"


class _Writers:
    """One Parquet file per language; rows wait until they fill a row group.

    A group depends on the rows of its own language alone, so a part does not depend on what else was read.
    """

    def __init__(self, folder: Path, name: Callable[[str], str], stack: ExitStack) -> None:
        self._folder, self._name, self._stack = folder, name, stack
        self._files: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, pa.Table] = {}
        self.rows: Counter[str] = Counter()

    def add(self, table: pa.Table) -> None:
        for language, rows in rows_by(table.column("language")):
            own = table.take(pa.array(rows))
            self.rows[language] += own.num_rows
            waiting = pa.concat_tables([self._waiting.get(language, own.slice(0, 0)), own])
            whole = waiting.num_rows - waiting.num_rows % ROWS_PER_GROUP
            self._write(language, waiting.slice(0, whole))
            self._waiting[language] = waiting.slice(whole)

    def finish(self) -> None:
        for language, table in self._waiting.items():
            self._write(language, table)

    def _write(self, language: str, table: pa.Table) -> None:
        if not table.num_rows:
            return
        if language not in self._files:
            path = self._stack.enter_context(atomic_write(self._folder / self._name(language)))
            # Fast options, since a part is read once or twice.
            packed = {name: "NONE" if name in UNCOMPRESSED else "lz4" for name in table.schema.names}
            writer = pq.ParquetWriter(path, table.schema, compression=packed, use_dictionary=["language", "split"])
            self._files[language] = self._stack.enter_context(writer)
        self._files[language].write_table(table.combine_chunks(), row_group_size=ROWS_PER_GROUP)


@dataclass(slots=True)
class Scorer:
    """Scores feeds, as far as that is not on disk already."""

    folder: Path
    workers: Workers
    scanner: LeakScanner
    settings: CleaningSettings
    on_error: str
    model: SimilarityModel | None
    on_block: Callable[[Feed, pa.Table], None]

    def score(self, feed: Feed, wanted: Sequence[str]) -> ScoredFeed:
        """Score what is missing of a feed, in the `wanted` languages or all that it has."""
        scoring = Scoring(self.settings, feed.corpus, feed.source_language, feed.dictionary)
        scored = ScoredFeed(feed, content_hash(feed.key, scoring.key(self.scanner)))
        path = self.folder / f"{scored.key[:16]}.json"
        needs = scoring.needs(self.model)
        known = known_index(path, scored, needs)
        languages = [feed.language] if feed.language else wanted
        found = known.whole or (wanted and all(language in known.rows for language in languages))
        if found:
            Faults(self.on_error).replay(known.skipped, known.first_fault)
        else:
            missing = [language for language in wanted if language not in known.rows]
            made = self._make(scored, scoring, missing)
            rows = known.rows | dict.fromkeys(missing, 0) | made.rows
            known = replace(made, rows=rows, checksums=known.checksums | made.checksums, whole=not wanted, scored=needs)
            write_json(path, asdict(known))
        rows = {name: count for name, count in sorted(known.rows.items()) if count and (not wanted or name in wanted)}
        return replace(scored, index=replace(known, rows=rows), made=not found)

    def _make(self, scored: ScoredFeed, scoring: Scoring, missing: Sequence[str]) -> ScoredIndex:
        faults = Faults(self.on_error)
        blocks = scored.feed.blocks(faults)
        if missing:
            wanted = pa.array(missing)
            blocks = (block.filter(pc.is_in(block.column("language"), wanted)) for block in blocks)
            blocks = (block for block in blocks if block.num_rows)
        with ExitStack() as stack:
            writers = _Writers(self.folder, scored.part, stack)
            for block in self.workers.map(score_block, blocks, scoring):
                if self.settings.similarity_model and self.model:
                    block = add_similarity(block, scoring, self.model)
                writers.add(block)
                self.on_block(scored.feed, block)
            writers.finish()
        sums = {language: file_hash(self.folder / scored.part(language)) for language, rows in writers.rows.items() if rows}
        # Without the folders of this machine: a store must not depend on where a file was.
        folder = scored.feed.name.rpartition("/")[0]
        first = faults.first.replace(f"{folder}/", "") if folder else faults.first
        passed_over = dict(sorted(faults.passed_over.items()))
        return ScoredIndex(writers.rows, sums, skipped=faults.count, first_fault=first, passed_over=passed_over)


def known_index(path: Path, scored: ScoredFeed, needs: Sequence[str]) -> ScoredIndex:
    """The index of an earlier call, if it has all scores that are needed and its parts are undamaged."""
    try:
        known = as_type(read_json(path), ScoredIndex)
        check(known.rows, Each(CODE, COUNT))
    except (OSError, ValueError):  # missing, damaged, or of another version
        return ScoredIndex()
    if not set(needs) <= set(known.scored):
        return ScoredIndex()
    found = {language: file_checksum(path.parent / scored.part(language)) for language, rows in known.rows.items() if rows}
    if found != known.checksums:
        logger.warning("%s: the kept scores are damaged; %s is scored again", path.parent, scored.feed.corpus)
        return ScoredIndex()
    return known


def passed_over(scored: Iterable[ScoredFeed]) -> dict[str, int]:
    """How many entries of all feeds gave no pair, by kind."""
    return dict(sorted(sum((Counter(feed.index.passed_over) for feed in scored), Counter[str]()).items()))

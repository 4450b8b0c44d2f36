"""Turn raw pairs into a store that is fit for training and testing: normalize, score, select, record what happened.

    feeds → scored parts → automatic thresholds → selection → final parts and manifest

Equal input gives equal bytes. Everything is named by its content, so an earlier preparation is reused and only new input is
read.
"""

import re
import tempfile
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa

from isogloss.amounts import amount
from isogloss.config import CleaningSettings, LeakSettings, PairsSettings
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.cleaning.rule import rule_classes, rules_for
from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.preparation.auto_thresholds import set_thresholds
from isogloss.corpora.preparation.feeds import Feed, from_bitext, from_source
from isogloss.corpora.preparation.manifest import count, manifest_of, total
from isogloss.corpora.preparation.pair_limits import NO_LIMITS, PairLimits
from isogloss.corpora.preparation.pair_selection import ScoredPart, Selection
from isogloss.corpora.preparation.score_blocks import warm_up
from isogloss.corpora.preparation.scored_parts import ScoredFeed, Scorer, passed_over
from isogloss.corpora.preparation.workers import Workers
from isogloss.corpora.preparation.write_parts import write_parts
from isogloss.corpora.reading.in_memory import PairData, are_paths
from isogloss.corpora.reading.malformed import unread_in_words
from isogloss.corpora.reading.readers import read, refuse_missing_languages, refuse_several_sources
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.store import DROPPED, MANIFEST, PAIRS, SCORED, Store, is_store, open_store
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import (
    explaining_disk,
    folder_lock,
    make_folder,
    refuse_folder,
    remove_stale_files,
    write_json,
    write_text,
)
from isogloss.types import Bitext

STARTED = ".isogloss-store"  # marks a folder whose manifest is not written yet
OUR_FILES = re.compile(r"[0-9a-f]{16}\.json|.+-[0-9a-f]{16}(-[0-9a-f]{8})?\.parquet")  # what may be removed
MAX_WORKERS = 256
MIN_BYTES = 16 * 2**20  # of text; below this, starting other processes costs more than it saves


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """How pairs are prepared."""

    cleaning: CleaningSettings = field(default_factory=CleaningSettings)
    leaks: LeakSettings = field(default_factory=LeakSettings)
    held_out: float = 0.1
    limits: PairLimits = NO_LIMITS
    languages: tuple[str, ...] = ()
    on_error: str = "fail"
    workers: int = 1
    similarity_model: SimilarityModel | None = None  # the loaded cleaning.similarity_model
    on_progress: OnProgress = silent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Clean pairs in memory, each in the train or the test split, and the manifest of their preparation."""

    bitext: Bitext
    manifest: dict[str, Any]
    folder: Path | None = None  # of their store, if it was kept

    @property
    def hash(self) -> str:
        """Hash of the content."""
        return str(self.manifest["hash"])


def prepare(
    pairs: PairData,
    cleaning: CleaningSettings | None = None,
    held_out: float = 0.1,
    out: Path | str | None = None,
    leaks: LeakSettings | None = None,
    *,
    language: str | None = None,
    source_language: str = "en",
) -> Prepared:
    """Clean pairs, hold out a share of their source sentences as a test split, and return them in memory.

    `pairs` is what `read` takes: paths, or pairs in memory. All translations of a source sentence are in the same split, and
    text of the test split is never trained on. `out` keeps the store that is written. Scores of the corpora themselves
    (WikiMatrix' margin) are only known for paths.
    """
    options = PrepareOptions(cleaning=cleaning or CleaningSettings(), leaks=leaks or LeakSettings(), held_out=held_out)
    dictionaries = PairsSettings().dictionaries
    if are_paths(pairs):
        sources = find_sources(pairs, language, source_language, dictionaries=dictionaries)
        feeds = [from_source(source) for source in sources]
    else:
        bitext = pairs if isinstance(pairs, Bitext) else read(pairs, language=language, source_language=source_language)
        feeds = from_bitext(bitext, lambda corpus: any(fnmatchcase(corpus, pattern) for pattern in dictionaries))
    with tempfile.TemporaryDirectory(prefix="isogloss-") if out is None else nullcontext(out) as folder:
        store = prepare_store(feeds, Path(folder) / "store" if out is None else Path(folder), options)
        return Prepared(store.bitext(), store.manifest, store.folder if out else None)


def prepare_store(feeds: Sequence[Feed], out: Path, options: PrepareOptions) -> Store:
    """Prepare feeds into a store. Feeds that the store already has are not read again."""
    refuse_other_folder(out)
    with folder_lock(out, "another isogloss is writing to this store", "wait for it, or name another"):
        write_text(out / STARTED, "isogloss prepare writes here\n")
        make_folder(out / SCORED)
        for folder in (out, out / SCORED, out / PAIRS, out / DROPPED):
            remove_stale_files(folder)
        return _prepare(feeds, out, options)


def refuse_other_folder(out: Path) -> None:
    """Refuse a folder with other content: a store is written to a new folder or over a store."""
    with explaining_disk(out):
        if out.is_file():
            raise DataError(f"{out}: is a file, but a store is a folder", hint="name a new folder")
        found = [path for path in out.iterdir() if path.name != ".lock"] if out.is_dir() else []
    if found and not (out / STARTED).is_file() and not is_store(out):
        raise DataError(f"{out}: has other files in it", hint="name a new folder, or a store that isogloss prepare wrote")
    refuse_folder(out / MANIFEST)


def _prepare(feeds: Sequence[Feed], out: Path, options: PrepareOptions) -> Store:
    cleaning, leaks = options.cleaning, options.leaks
    refuse_several_sources({feed.source_language for feed in feeds})
    if cleaning.similarity_model and options.similarity_model is None:
        hint = "use isogloss prepare, or set PrepareOptions.similarity_model"
        raise DataError("cleaning.similarity_model needs a loaded model here", hint=hint)
    scanner = LeakScanner(evaluation_sets(leaks.against) if leaks.level != "off" else [], leaks.level, cleaning.normalize)
    scored = _score(feeds, out, options, scanner)
    parts = [
        ScoredPart(out / SCORED / scored_feed.part(language), corpus, language, rows, rules_for(cleaning, corpus))
        for scored_feed in scored
        for corpus in [scored_feed.feed.corpus]
        for language, rows in scored_feed.index.rows.items()
    ]
    refuse_missing_languages(
        options.languages, [*(part.language for part in parts), *(feed.language for feed in feeds if feed.language)]
    )
    if not parts:
        raise _nothing_read(scored)
    thresholds = set_thresholds(parts) if cleaning.auto else []
    used = {rule.name for part in parts for rule in part.rules}
    rules = [rule.name for rule in rule_classes() if rule.name in used]
    selection = Selection(parts, cleaning, options.held_out, rules, options.limits)
    rows = sum(part.rows for part in parts)
    options.on_progress(Step("pairs", rows, rows + 1, "pairs", "selecting"))
    selection.run()
    lines = [count(part, selection.reasons) for part in parts]
    every = total(lines)
    if not every.pairs:
        raise DataError(f"{amount(every.rows_in, 'pair')} read, none kept", hint=f"most by the rule: {every.worst}")
    options.on_progress(Step("pairs", rows, rows + 1, "pairs", "writing"))
    files = write_parts(selection, out, options.workers)
    manifest = manifest_of(scored, selection, list(zip(files, lines, strict=True)), leaks, scanner, thresholds)
    write_json(out / MANIFEST, manifest)
    remove_scores(out, keep=[scored_feed.key[:16] for scored_feed in scored])
    _remove(out / PAIRS, keep=files)
    _remove(out / DROPPED, keep=files)
    reused = not any(scored_feed.made for scored_feed in scored)
    options.on_progress(Step("pairs", rows, rows, "pairs", _note(manifest, reused)))
    return open_store(out)


def _note(manifest: dict[str, Any], reused: bool) -> str:
    """The note beside the progress bar when it is full."""
    notes = [amount(len(set(manifest["languages"]) - {manifest["source_language"]}), "language")]
    if dropped := manifest["rows_in"] - manifest["rows_out"]:
        notes.append(f"{amount(dropped, 'pair')} dropped")
    if skipped := manifest["skipped_lines"]:
        notes.append(f"{amount(skipped, 'bad line')} skipped")
    return ", ".join([*notes, "scores reused"] if reused else notes)


def _score(feeds: Sequence[Feed], out: Path, options: PrepareOptions, scanner: LeakScanner) -> list[ScoredFeed]:
    """The scored parts of every feed, from disk or made now."""
    wanted, rows, text = options.languages, 0, 0
    feeds = [feed for feed in feeds if not wanted or not feed.language or feed.language in (*wanted, feed.source_language)]
    expected = sum(feed.text_bytes for feed in feeds)

    def on_block(feed: Feed, block: pa.Table) -> None:
        nonlocal rows, text
        rows += block.num_rows
        text += block.column("source").nbytes + block.column("target").nbytes
        total = int(rows * max(expected, text) / max(text, 1))
        options.on_progress(Step("pairs", rows, max(total, rows + 1), "pairs", feed.corpus))

    workers = min(options.workers, MAX_WORKERS) if expected > MIN_BYTES else 1
    with Workers(workers, scanner, warm_up) as pool:
        scorer = Scorer(out / SCORED, pool, scanner, options.cleaning, options.on_error, options.similarity_model, on_block)
        return [scorer.score(feed, [*wanted, feed.source_language] if wanted else []) for feed in feeds]


def _nothing_read(scored: Sequence[ScoredFeed]) -> DataError:
    first = next((scored_feed.index.first_fault for scored_feed in scored if scored_feed.index.first_fault), "")
    names = ", ".join(scored_feed.feed.name for scored_feed in scored[:3]) + (", …" if len(scored) > 3 else "")
    unread = unread_in_words(sum(scored_feed.index.skipped for scored_feed in scored), first, passed_over(scored))
    return DataError(f"{names}: no pairs", hint=unread or "is the file empty?")


def remove_scores(store: Path, keep: Collection[str] = ()) -> None:
    """Free the disk space of scores, except those with the keys in `keep`; what is removed can be scored again."""
    _remove(store / SCORED, keep)


def _remove(folder: Path, keep: Collection[str]) -> None:
    """Remove what isogloss wrote to a folder, except names that contain one of `keep`."""
    for path in folder.glob("*"):
        if OUR_FILES.fullmatch(path.name) and not any(name in path.name for name in keep):
            path.unlink()

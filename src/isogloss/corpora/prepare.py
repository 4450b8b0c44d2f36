"""From pairs as they were found to pairs fit for training and testing: normalize, score, select, write down what happened.

    feeds → scored parts (scored.py) → thresholds → selection (selecting.py) → final parts and manifest (store.py)

The result is the same for the same input, byte by byte, and everything is named by its content: what was done before is
found again, and only what is new is read.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.amounts import amount
from isogloss.config import CleaningSettings, LeakSettings, PairsSettings
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.cleaning.rules import rules_for
from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.preparation import auto_thresholds as thresholds
from isogloss.corpora.preparation import drop_counts as account
from isogloss.corpora.preparation.feeds import Feed, from_bitext, from_source
from isogloss.corpora.preparation.manifest import manifest_of, write_parts
from isogloss.corpora.preparation.pair_selection import RulesOf, Scored, Selection
from isogloss.corpora.preparation.score_blocks import Scoring, score_column, warm_up
from isogloss.corpora.preparation.scored_parts import ScoredFeed, Scorer, passed_over
from isogloss.corpora.preparation.workers import Workers
from isogloss.corpora.reading.malformed import unread_in_words
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

BEGUN = ".isogloss-store"
OURS = re.compile(r"[0-9a-f]{16}\.json|.+-[0-9a-f]{16}(-[0-9a-f]{8})?\.parquet")  # names of what is written here, and may go
MOST_WORKERS = 256
MANY_BYTES = 16 * 2**20  # of text: below this, starting other processes costs more than it saves
SAMPLE = 200_000  # scores a rule and language that a threshold is learnt from


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How pairs are prepared: everything but the pairs."""

    cleaning: CleaningSettings = field(default_factory=CleaningSettings)
    leaks: LeakSettings = field(default_factory=LeakSettings)
    held_out: float = 0.1
    languages: tuple[str, ...] = ()
    on_error: str = "fail"
    workers: int = 1
    judge: SimilarityModel | None = None  # the model behind cleaning.similarity_model
    on_progress: OnProgress = silent


@dataclass(frozen=True, slots=True)
class Prepared:
    """Clean pairs in memory, each in the train or the test split, and the account of how they came to be."""

    bitext: Bitext
    manifest: dict[str, Any]
    folder: Path | None = None  # of the store they come from, where it was kept

    @property
    def hash(self) -> str:
        """Names the content."""
        return str(self.manifest["hash"])


def prepare(
    pairs: Bitext | str | Path | Sequence[str | Path],
    cleaning: CleaningSettings | None = None,
    held_out: float = 0.1,
    out: Path | str | None = None,
    leaks: LeakSettings | None = None,
) -> Prepared:
    """Clean pairs, hold out a share of their source sentences where they have no split, and give them back in memory.

    Names (files, folders, globs) are read as `isogloss prepare` reads them. Pairs that are in memory already have lost the
    scores of their corpus. A source sentence is wholly in one split, with all its translations; text of the test split is
    never trained on. With `out`, the store that is written there stays.
    """
    how = Preparation(cleaning=cleaning or CleaningSettings(), leaks=leaks or LeakSettings(), held_out=held_out)
    patterns = PairsSettings().dictionaries
    if isinstance(pairs, Bitext):
        feeds = from_bitext(pairs, lambda corpus: any(fnmatchcase(corpus, pattern) for pattern in patterns))
    else:
        names = [pairs] if isinstance(pairs, str | Path) else list(pairs)
        feeds = [from_source(source) for source in find_sources([str(name) for name in names], dictionaries=patterns)]
    with _folder(out) as folder:
        store = prepare_store(feeds, folder, how)
        return Prepared(store.bitext(), store.manifest, store.folder if out else None)


@contextmanager
def _folder(out: Path | str | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
        yield Path(temporary) / "store"


def prepare_store(feeds: Sequence[Feed], out: Path, how: Preparation) -> Store:
    """Prepare any number of feeds into a store. What the store already has of them is not read again."""
    refuse_other_things(out)
    with folder_lock(out, "another isogloss is writing to this store", "wait for it, or name another"):
        write_text(out / BEGUN, "isogloss prepare writes here\n")  # so that what is stopped before its manifest is known again
        make_folder(out / SCORED)
        for folder in (out, out / SCORED, out / PAIRS, out / DROPPED):
            remove_stale_files(folder)
        return _prepare(feeds, out, how)


def refuse_other_things(out: Path) -> None:
    """A store is written to a new folder or to a store, never among other things."""
    with explaining_disk(out):
        if out.is_file():
            raise DataError(f"{out}: is a file, and a store is a folder", hint="name a folder that is not there yet")
        found = [path for path in out.iterdir() if path.name != ".lock"] if out.is_dir() else []
    if found and not (out / BEGUN).is_file() and not is_store(out):
        raise DataError(f"{out}: has other things in it", hint="name a new folder, or a store that isogloss prepare wrote")
    refuse_folder(out / MANIFEST)


def _prepare(feeds: Sequence[Feed], out: Path, how: Preparation) -> Store:
    if len({feed.source_language for feed in feeds}) > 1:
        found = ", ".join(sorted({feed.source_language for feed in feeds}))
        raise DataError(f"the files have different source languages: {found}", hint="a run has one source language")
    if how.cleaning.similarity_model and how.judge is None:
        raise DataError("cleaning.similarity_model needs a loaded model here", hint="use isogloss prepare, or give a judge")
    guard = LeakScanner(
        evaluation_sets(how.leaks.against) if how.leaks.level != "off" else [], how.leaks.level, how.cleaning.normalize
    )
    scored = _score(feeds, out, how, guard)
    parts = [_part(one, language, out) for one in scored for language in one.rows]
    languages = [language for one in scored for language in one.rows]
    refuse_missing(how.languages, [*languages, *(feed.language for feed in feeds if feed.language)])
    if not parts:
        raise _nothing_read(scored)
    used = {rule.name for part in parts for rule in rules_for(how.cleaning, part.corpus)}
    names = [rule.name for rule in rules_for(how.cleaning.replace(min_scores=("*=0",))) if rule.name in used]
    selection = Selection(parts, how.cleaning, how.held_out, names)
    chosen = _thresholds(selection, languages, how) if how.cleaning.auto else {}
    rows = sum(part.rows for part in parts)
    how.on_progress(Step("pairs", rows, rows + 1, "pairs", "selecting"))
    selection.run(_rules_of(how, chosen))
    lines = [account.count(part, language, selection.reasons) for part, language in zip(parts, languages, strict=True)]
    every = account.total(lines)
    if not every.kept:
        raise DataError(f"no pairs are left of {every.rows_in:,}", hint=f"most went by the rule: {every.worst}")
    how.on_progress(Step("pairs", rows, rows + 1, "pairs", "writing"))
    files = write_parts(selection, out, how.workers)
    manifest = manifest_of(scored, selection, lines, files, how.leaks, guard, chosen)
    write_json(out / MANIFEST, manifest)
    _forget_others(out, {one["file"] for one in manifest["parts"]}, {one.key[:16] for one in scored})
    how.on_progress(Step("pairs", rows, rows, "pairs", _note(manifest, reused=not any(one.made for one in scored))))
    return open_store(out)


def _note(manifest: dict[str, Any], reused: bool) -> str:
    """What is worth saying when the bar is full."""
    learnt = len(set(manifest["languages"]) - {manifest["source_language"]})
    parts = [amount(learnt, "language")]
    if dropped := manifest["rows_in"] - manifest["rows_out"]:
        parts.append(f"{amount(dropped, 'pair')} left out")
    if skipped := manifest["skipped_lines"]:
        parts.append(f"{amount(skipped, 'bad line')} left out")
    return ", ".join([*parts, "scores reused"] if reused else parts)


def _score(feeds: Sequence[Feed], out: Path, how: Preparation, guard: LeakScanner) -> list[ScoredFeed]:
    """Every feed's scored parts, from disk or made now, with progress in pairs."""
    read = {"rows": 0, "bytes": 0}
    feeds = [feed for feed in feeds if _is_wanted(feed, how.languages)]
    expected = sum(feed.text_bytes for feed in feeds)

    def on_rows(feed: Feed, rows: int, text: int) -> None:
        read["rows"] += rows
        read["bytes"] += text
        total = int(read["rows"] * max(expected, read["bytes"]) / max(read["bytes"], 1))
        how.on_progress(Step("pairs", read["rows"], max(total, read["rows"] + 1), "pairs", feed.corpus))

    workers = min(how.workers, MOST_WORKERS) if expected > MANY_BYTES else 1
    with Workers(workers, guard) as pool:
        if workers > 1:
            pool.start(warm_up)
        scorer = Scorer(out / SCORED, pool, guard, how.on_error, how.judge, on_rows)
        scored = []
        for feed in feeds:
            wanted = [*how.languages, feed.source_language] if how.languages else []
            judge = how.judge.fingerprint if how.judge else ""
            scoring = Scoring(how.cleaning, feed.corpus, feed.source_language, feed.dictionary, judge)
            scored.append(scorer.score(feed, scoring, wanted))
    return scored


def _is_wanted(feed: Feed, languages: Sequence[str]) -> bool:
    return not languages or not feed.language or feed.language in (*languages, feed.source_language)


def _part(one: ScoredFeed, language: str, out: Path) -> Scored:
    rows = one.rows[language]
    path = out / SCORED / f"{one.part(language)}.parquet"
    return Scored(path, one.feed.corpus, np.zeros(rows, dtype=np.uint8), np.zeros(rows, dtype=np.bool_))


def _rules_of(how: Preparation, chosen: dict[tuple[str, str], thresholds.Threshold]) -> Callable[[str], RulesOf]:
    def by_corpus(corpus: str) -> RulesOf:
        rules = rules_for(how.cleaning, corpus)
        return lambda language: thresholds.apply(rules, language, chosen)

    return by_corpus


def _thresholds(
    selection: Selection, languages: Sequence[str], how: Preparation
) -> dict[tuple[str, str], thresholds.Threshold]:
    """A threshold for each rule and language, from a sample of the scores of all corpora together."""
    chosen = {}
    for language in sorted(set(languages)):
        own = [part for part, one in zip(selection.parts, languages, strict=True) if one == language]
        step = max(1, sum(part.rows for part in own) // SAMPLE)
        for rule in rules_for(how.cleaning.replace(min_scores=()), ""):
            sample = [
                table.column(0).to_numpy()[-rows.start % step :: step]
                for part in own
                for rows, table in part.batches([score_column(rule)])
            ]
            found = thresholds.choose(rule, language, np.concatenate(sample))
            if found:
                chosen[rule.name, language] = found
    return chosen


def refuse_missing(wanted: Sequence[str], found: Sequence[str]) -> None:
    """Say which wanted languages there are no pairs for."""
    if absent := sorted(set(wanted) - set(found)):
        have = ", ".join(sorted(set(found)))
        raise DataError(
            f"no pairs for {', '.join(absent)}" + (f"; there are some for {have}" if have else ""),
            hint="take those languages out of `languages`, or add files that have them",
        )


def _nothing_read(scored: Sequence[ScoredFeed]) -> DataError:
    first = next((one.first_fault for one in scored if one.first_fault), "")
    names = ", ".join(one.feed.name for one in scored[:3]) + (", …" if len(scored) > 3 else "")
    unread = unread_in_words(sum(one.skipped for one in scored), first, passed_over(scored))
    return DataError(f"{names}: no pairs", hint=unread or "is the file empty?")


def _forget_others(out: Path, files: set[str], keys: set[str]) -> None:
    """Remove parts that the manifest no longer names, and scores of what is no longer read or scored that way."""
    for path in (out / SCORED).iterdir():
        if OURS.fullmatch(path.name) and not any(key in path.name for key in keys):
            path.unlink()
    for folder in (out / PAIRS, out / DROPPED):
        for path in folder.glob("*.parquet"):
            if OURS.fullmatch(path.name) and path.name not in files:
                path.unlink()


def forget_scores(store: Path) -> None:
    """Free the disk that kept scores take; the next preparation scores everything again."""
    for path in (store / SCORED).glob("*"):
        if OURS.fullmatch(path.name):
            path.unlink()

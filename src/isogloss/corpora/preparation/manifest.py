"""The manifest of a store: where its pairs came from, how many were dropped, and why.

Nothing in it depends on when or where the store was made.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isogloss.config import LeakSettings, as_dict
from isogloss.corpora.leaks.scan import LeakScanner, scanned_before
from isogloss.corpora.preparation.auto_thresholds import Threshold
from isogloss.corpora.preparation.pair_selection import KEPT, LEAK_REASONS, NEAR_DUPLICATE, ScoredPart, Selection
from isogloss.corpora.preparation.scored_parts import ScoredFeed, passed_over
from isogloss.corpora.preparation.write_parts import examples
from isogloss.corpora.store import DROPPED, FORMAT, MARK, PAIRS
from isogloss.shapes import as_type
from isogloss.storage import content_hash, file_hash
from isogloss.types import TEST, TRAIN


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the waterfall: a corpus in a language, or a sum over several ("" where they differ)."""

    corpus: str
    language: str
    rows_in: int
    dropped: dict[str, int]  # by rule
    train: int
    test: int

    @property
    def pairs(self) -> int:
        """The pairs that were kept, of both splits."""
        return self.train + self.test

    @property
    def worst(self) -> str:
        """The rule that dropped most, with the count: "wrong language (1,204)"; empty if nothing was dropped."""
        rule = max(self.dropped, key=lambda name: self.dropped[name], default="")
        return f"{rule} ({self.dropped[rule]:,})" if rule else ""


def count(part: ScoredPart, reasons: Sequence[str]) -> Line:
    """The line of one part."""
    counted = np.bincount(part.reasons, minlength=len(reasons))
    dropped = {reasons[number]: int(counted[number]) for number in range(1, len(reasons)) if counted[number]}
    test = int(((part.reasons == KEPT) & part.test).sum())
    return Line(part.corpus, part.language, part.rows, dropped, int(counted[KEPT]) - test, test)


def grouped(lines: Iterable[Line], *names: str) -> list[Line]:
    """Sums by the named fields ("corpus", "language", or both), in order."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(getattr(line, name) for name in names), []).append(line)
    return [total(own, **dict(zip(names, key, strict=True))) for key, own in sorted(groups.items())]


def waterfall(manifest: Mapping[str, Any]) -> list[Line]:
    """The counts of every corpus in every language, from a manifest."""
    return as_type(manifest["waterfall"], list[Line])


def total(lines: Sequence[Line], corpus: str = "", language: str = "") -> Line:
    """All lines as one."""
    dropped = sum((Counter(line.dropped) for line in lines), Counter[str]())
    rows_in, train, test = (sum(getattr(line, name) for line in lines) for name in ("rows_in", "train", "test"))
    return Line(corpus, language, rows_in, dict(dropped), train, test)


def manifest_of(
    scored: Sequence[ScoredFeed],
    selection: Selection,
    written: Sequence[tuple[str, Line]],
    leaks: LeakSettings,
    scanner: LeakScanner,
    thresholds: Sequence[Threshold],
) -> dict[str, Any]:
    """The manifest of the parts that were written, each a file and the counts of its pairs."""
    files, lines = zip(*written, strict=True)
    every, cleaning = total(lines), selection.settings
    only_if_found = (*LEAK_REASONS, *((NEAR_DUPLICATE,) if cleaning.duplicates != "near" else ()))
    order = [name for name in selection.reasons[1:] if name in every.dropped or name not in only_if_found]
    out = selection.parts[0].path.parents[1]
    shown = examples([out / DROPPED / file for file in files])
    parts: list[dict[str, Any]] = [
        {"file": file, "corpus": line.corpus, "rows": line.pairs}
        | {"sha256": file_hash(out / PAIRS / file), "dropped_sha256": file_hash(out / DROPPED / file)}
        for file, line in written
    ]
    before = scanned_before((scored_feed.feed.scanned for scored_feed in scored if scored_feed.index.rows), scanner.sets)
    return {
        MARK: FORMAT,
        "hash": content_hash(scored[0].feed.source_language, *(part["sha256"] for part in parts)),
        "source_language": scored[0].feed.source_language,
        "rows_in": every.rows_in,
        "rows_out": every.pairs,
        "dropped": [{"rule": name, "count": every.dropped.get(name, 0), "examples": shown.get(name, [])} for name in order],
        "languages": {line.language: _counts(line) for line in grouped(lines, "language")},
        "corpora": {line.corpus: _counts(line) | _about(scored, line.corpus) for line in grouped(lines, "corpus")},
        "waterfall": [asdict(line) for line in grouped(lines, "corpus", "language")],
        "sources": [_source(scored_feed) for scored_feed in scored],
        "skipped_lines": sum(scored_feed.index.skipped for scored_feed in scored),
        "passed_over": passed_over(scored),
        "settings": {
            "cleaning": _without_folders(as_dict(cleaning)),
            "leaks": _without_folders(as_dict(leaks)),
            "held_out": selection.held_out,
            **({"limits": asdict(selection.limits)} if selection.limits.reasons else {}),
        },
        "thresholds": [asdict(threshold) for threshold in thresholds],
        "leak_scan": {
            "level": leaks.level,
            "sets": [asdict(scanned) for scanned in (*scanner.sets, *before)],
            "removed": {name: every.dropped.get(name, 0) for name in LEAK_REASONS},
        },
        "parts": parts,
    }


def _counts(line: Line) -> dict[str, Any]:
    return {"rows_in": line.rows_in, TRAIN: line.train, TEST: line.test}


def _about(scored: Sequence[ScoredFeed], corpus: str) -> dict[str, Any]:
    """License, version and kind of a corpus, as its files have them."""
    own = [scored_feed.feed for scored_feed in scored if scored_feed.feed.corpus == corpus]
    return {
        "license": ", ".join(sorted({feed.license for feed in own if feed.license})),
        "version": ", ".join(sorted({feed.version for feed in own if feed.version})),
        "dictionary": any(feed.dictionary for feed in own),
    }


def _source(scored_feed: ScoredFeed) -> dict[str, Any]:
    return {
        "name": _name(scored_feed.feed.name),
        "corpus": scored_feed.feed.corpus,
        "license": scored_feed.feed.license,
        "version": scored_feed.feed.version,
        "key": scored_feed.key,
        "rows": scored_feed.index.rows,
        "skipped_lines": scored_feed.index.skipped,
        "first_fault": scored_feed.index.first_fault,
        "passed_over": scored_feed.index.passed_over,
    }


def _without_folders(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the names of files and models, without the folders of this machine."""
    paths = {"against": lambda names: [_name(name) for name in names], "tokenizer": _name, "similarity_model": _name}
    return {key: paths[key](value) if key in paths else value for key, value in settings.items()}


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]

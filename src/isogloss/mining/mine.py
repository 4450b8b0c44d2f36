"""Find translations of one side's sentences on the other: read, embed, search, score, match, and keep what is good enough.

    sentences  →  vectors  →  neighbors  →  margin  →  matching  →  calibration

`mine` does all of it; `score.score` does the part that existing pairs need. `Mined` is the result.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isogloss.config.mining import MiningSettings, SearchSettings
from isogloss.errors import DataError
from isogloss.mining.calibration import (
    SPARE,
    Calibration,
    Curve,
    Retrieved,
    best_threshold,
    calibrate,
    gold_curve,
    retrieved_at,
)
from isogloss.mining.gold import Gold, read_gold
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import Matches, matched
from isogloss.mining.output import write_pairs
from isogloss.mining.sentences import STANDARD_INPUT, Account, Sentences, read_sentences, without_shared
from isogloss.mining.vectors import embedded
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.approximate import SearchAccount, search_both_ways
from isogloss.types import Bitext, Pair

AUTO, GOLD = "auto", "gold:"
UNKNOWN = "und"  # ISO 639 for an undetermined language


@dataclass(frozen=True, slots=True, eq=False)
class Mined:
    """The pairs above the threshold, the best first, and how they were found."""

    pairs: pa.Table  # score, source, target, source_id, target_id
    threshold: float
    candidates: int
    accounts: tuple[Account, Account]
    languages: tuple[str, str]
    calibration: Calibration | None = None
    gold: Retrieved | None = None
    gold_curve: Curve | None = None
    search: SearchAccount | None = None

    def __len__(self) -> int:
        return int(self.pairs.num_rows)

    def bitext(self) -> Bitext:
        """The pairs as a bitext, to train on or to prepare."""
        columns = (self.pairs.column(name).to_pylist() for name in ("source", "target"))
        language = self.languages[1] or UNKNOWN
        pairs = (Pair(source, target, language, "mined") for source, target in zip(*columns, strict=True))
        return Bitext.of(pairs, self.languages[0] or UNKNOWN)

    def write(self, path: Path | str) -> None:
        """Write the pairs as TSV, JSON lines or Parquet, by the file's name."""
        write_pairs(self.pairs, Path(path))

    def summary(self) -> dict[str, Any]:
        """Counts, threshold and curves, for JSON."""
        summary: dict[str, Any] = {
            "pairs": len(self),
            "candidates": self.candidates,
            "threshold": self.threshold if np.isfinite(self.threshold) else None,
            "source": asdict(self.accounts[0]) | {"kept": self.accounts[0].kept},
            "target": asdict(self.accounts[1]) | {"kept": self.accounts[1].kept},
        }
        if self.calibration is not None:
            summary["estimated_precision"] = self.calibration.precision_at(self.threshold) if len(self) else None
            summary["calibration"] = self.calibration.as_dict()
        if self.search is not None:
            summary["search"] = asdict(self.search)
        if self.gold is not None:
            summary["gold"] = self.gold._asdict()
        if self.gold_curve is not None:
            summary["gold_curve"] = self.gold_curve.as_rows()
        return summary


def mine(
    model: Encoder | str,
    source: str | Path | Sequence[str],
    target: str | Path | Sequence[str],
    settings: MiningSettings | None = None,
    on_progress: OnProgress = silent,
) -> Mined:
    """Find translations of the sentences of `source` in `target`.

    Both are files with one sentence per line (plain or compressed), prepared stores, "-" for standard input, or lists of
    sentences. `model` is an encoder, or the name of one of any kind.
    """
    how = settings or MiningSettings()
    _check_settings(source, target, how)
    left, right = _read(source, target, how, on_progress)
    gold = read_gold(how.threshold.removeprefix(GOLD), left, right) if how.threshold.startswith(GOLD) else None
    encoder = open_encoder(model, how.device) if isinstance(model, str) else model
    with work_folder(how.folder) as folder:
        vectors = (
            embedded("source", left.texts, left.hashes, encoder, folder, how.cache, on_progress),
            embedded("target", right.texts, right.hashes, encoder, folder, how.cache, on_progress),
        )
        search = SearchSettings(device=how.device, memory=how.memory, folder=how.folder, search=how.search, recall=how.recall)
        estimate = how.threshold == AUTO or gold is not None  # with gold, the page shows how good the estimate is
        found = search_both_ways(*vectors, how.k + (SPARE if estimate else 0), search, on_progress)
        first = found.left.first(how.k), found.right.first(how.k)
        matches = matched(*first, *candidate_scores(*first, how.margin), how.strategy)
        calibration = calibrate(vectors, found.left, found.right, matches, how) if estimate else None
    return replace(_select(left, right, matches, how, calibration, gold), search=found.account)


def _read(
    source: str | Path | Sequence[str], target: str | Path | Sequence[str], how: MiningSettings, on_progress: OnProgress
) -> tuple[Sentences, Sentences]:
    """The sentences of both sides; raises if none are left on one."""
    left, right = (
        read_sentences(name, how, language, on_progress)
        for name, language in ((source, how.source_language), (target, how.target_language))
    )
    if not how.keep_identical:
        left, right = without_shared(left, right)
    for side in (left, right):
        if not len(side):
            raise DataError(f"{side.name}: no sentence is left to search", hint=side.account.reasons())
    return left, right


def _select(
    left: Sentences,
    right: Sentences,
    matches: Matches,
    how: MiningSettings,
    calibration: Calibration | None,
    gold: Gold | None,
) -> Mined:
    """Choose the threshold, and keep the pairs above it."""
    measured = curve = None
    if gold is not None:
        labelled = matches.scores, gold.among(matches), len(gold.pairs)
        threshold, curve = best_threshold(*labelled), gold_curve(*labelled)
        measured = retrieved_at(threshold, *labelled)
    elif calibration is not None:
        threshold = calibration.threshold_for(how.precision)
    else:
        threshold = float(how.threshold)
    kept = matches.where(matches.scores >= threshold)
    columns = {
        "score": pa.array(kept.scores),
        "source": left.texts.take(pa.array(kept.left)),
        "target": right.texts.take(pa.array(kept.right)),
        "source_id": left.ids.take(pa.array(kept.left)),
        "target_id": right.ids.take(pa.array(kept.right)),
    }
    accounts, languages = (left.account, right.account), (left.language, right.language)
    return Mined(pa.table(columns), threshold, len(matches), accounts, languages, calibration, measured, curve)


@contextmanager
def work_folder(folder: Path | str | None) -> Iterator[Path]:
    """The folder for unfinished work, or a temporary one."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def _check_settings(source: object, target: object, how: MiningSettings) -> None:
    """Raise for impossible settings before any work."""
    if str(source) == str(target) == STANDARD_INPUT:
        raise DataError("both sides cannot be standard input", hint="put one of them in a file")
    check_threshold(how.threshold, (AUTO, f"{GOLD}FILE"))


def check_threshold(threshold: str, words: tuple[str, ...]) -> None:
    """Raise if a threshold is neither a number nor one of `words`."""
    try:
        understood = threshold in words or not math.isnan(float(threshold))
    except ValueError:
        understood = f"{GOLD}FILE" in words and threshold.startswith(GOLD) and threshold != GOLD
    if not understood:
        raise DataError(f"threshold = {threshold!r} is not valid", hint=f"give a number, or {', '.join(words)}")

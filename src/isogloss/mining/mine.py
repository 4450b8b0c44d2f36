"""Translations of one side's sentences among the other's: read, embed, search, score, match, and decide what is good enough.

    sentences  →  vectors  →  neighbours  →  margin  →  matching  →  thresholds

`mine` does all of it; `score` in `mining/score.py` scores pairs that exist already. `Mined` holds the result and writes it.
"""

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
from isogloss.mining.calibration import Calibration, GoldCurve, Retrieved, best_threshold, calibrated, gold_curve, retrieved_at
from isogloss.mining.gold import Gold, read_gold
from isogloss.mining.margin import candidate_scores, margin_scores
from isogloss.mining.matching import Matches, matched
from isogloss.mining.output import write_pairs
from isogloss.mining.sentences import STANDARD_INPUT, Account, ReadingSettings, Sentences, read_sentences, without_shared
from isogloss.mining.vectors import BLOCK, embedded
from isogloss.mining.wrong_pairs import SPARE, near_misses, shuffled_pairs
from isogloss.models.encoder import Encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.approximate import search_both_ways
from isogloss.search.neighbours import Neighbours, Vectors, pair_cosines
from isogloss.search.recall import SearchAccount
from isogloss.storage import content_hash
from isogloss.types import Bitext, Pair

AUTO, GOLD = "auto", "gold:"
UNKNOWN = "und"  # what ISO 639 calls a language that was not told


@dataclass(frozen=True, slots=True, eq=False)
class Mined:
    """What was found: the pairs from the threshold on, the best first, and how they came about."""

    pairs: pa.Table  # score, source, target, source_id, target_id
    threshold: float
    candidates: int
    accounts: tuple[Account, Account]
    languages: tuple[str, str]
    calibration: Calibration | None = None
    gold: Retrieved | None = None
    gold_curve: GoldCurve | None = None
    search: SearchAccount | None = None

    def __len__(self) -> int:
        """Number of pairs."""
        return int(self.pairs.num_rows)

    def bitext(self) -> Bitext:
        """The pairs as others read them."""
        columns = (self.pairs.column(name).to_pylist() for name in ("source", "target"))
        language = self.languages[1] or UNKNOWN
        pairs = (Pair(source, target, language, "mined") for source, target in zip(*columns, strict=True))
        return Bitext.of(pairs, self.languages[0] or UNKNOWN)

    def write(self, path: Path | str) -> None:
        """Write the pairs as TSV, JSON lines or Parquet, by the name of the file."""
        write_pairs(self.pairs, Path(path))

    def summary(self) -> dict[str, Any]:
        """What there is to say of it, for JSON."""
        told: dict[str, Any] = {
            "pairs": len(self),
            "candidates": self.candidates,
            "threshold": self.threshold if np.isfinite(self.threshold) else None,
            **{name: asdict(one) | {"kept": one.kept} for name, one in zip(("source", "target"), self.accounts, strict=True)},
        }
        if self.calibration is not None:
            told["estimated_precision"] = self.calibration.precision_at(self.threshold) if len(self) else None
            told["calibration"] = self.calibration.as_dict()
        if self.search is not None:
            told["search"] = self.search.as_dict()
        if self.gold is not None:
            told["gold"] = self.gold._asdict()
        if self.gold_curve is not None:
            told["gold_curve"] = self.gold_curve.as_rows()
        return told


def mine(
    model: Encoder | str,
    source: str | Path | Sequence[str],
    target: str | Path | Sequence[str],
    settings: MiningSettings | None = None,
    on_progress: OnProgress = silent,
) -> Mined:
    """Find translations of the sentences of `source` among those of `target`.

    Both are files with one sentence per line (plain or compressed), prepared stores, "-" for standard input, or lists of
    sentences; `model` is an encoder of any kind, or its name.
    """
    how = settings or MiningSettings()
    _refuse_nonsense(source, target, how)
    left = read_sentences(source, _reading(how, how.source_language), on_progress)
    right = read_sentences(target, _reading(how, how.target_language), on_progress)
    if not how.keep_identical:
        left, right = without_shared(left, right)
    for side in (left, right):
        if not len(side):
            raise DataError(
                f"{side.name}: no sentence is left to search", hint=f"of {side.account.read:,}, {_lost(side.account)}"
            )
    gold = read_gold(how.threshold.removeprefix(GOLD), left, right) if how.threshold.startswith(GOLD) else None
    with working_in(how.folder) as folder:
        vectors = _vectors(left, right, opened(model, how.device), folder, how.cache, on_progress)
        search = SearchSettings(device=how.device, memory=how.memory, folder=how.folder, search=how.search, recall=how.recall)
        judged = how.threshold == AUTO or gold is not None  # with gold as well: the two curves say what the estimate is worth
        spare = SPARE if judged else 0
        found = search_both_ways(*vectors, how.k + spare, search, on_progress)
        of_left, of_right = found.left, found.right
        first = of_left.first(how.k), of_right.first(how.k)
        matches = matched(*first, *candidate_scores(*first, how.margin), how.strategy)
        calibration = _calibrate(vectors, of_left, of_right, matches, how) if judged else None
    return replace(_decided(left, right, matches, how, calibration, gold), search=found.account)


def _decided(
    left: Sentences,
    right: Sentences,
    matches: Matches,
    how: MiningSettings,
    calibration: Calibration | None,
    gold: Gold | None,
) -> Mined:
    """Take the pairs that are good enough."""
    measured = curve = None
    if gold is not None:
        golden = matches.scores, gold.among(matches), gold.wanted
        threshold, curve = best_threshold(*golden), gold_curve(*golden)
        measured = retrieved_at(threshold, *golden)
    elif calibration is not None:
        threshold = calibration.threshold_for(how.precision)
    else:
        threshold = float(how.threshold)
    taken = matches.where(matches.scores >= threshold)
    columns = {
        "score": pa.array(taken.scores),
        "source": left.texts.take(pa.array(taken.left)),
        "target": right.texts.take(pa.array(taken.right)),
        "source_id": left.ids.take(pa.array(taken.left)),
        "target_id": right.ids.take(pa.array(taken.right)),
    }
    accounts, languages = (left.account, right.account), (left.language, right.language)
    return Mined(pa.table(columns), threshold, len(matches), accounts, languages, calibration, measured, curve)


def _calibrate(
    vectors: tuple[Vectors, Vectors], left: Neighbours, right: Neighbours, matches: Matches, how: MiningSettings
) -> Calibration:
    near = near_misses(left, right, matches, how.k, how.margin, how.strategy)
    rows, columns = shuffled_pairs(len(left), len(right), matches)
    means = left.first(how.k).mean[rows], right.first(how.k).mean[columns]
    shuffled = margin_scores(pair_cosines(*vectors, rows, columns), *means, how.margin)
    return calibrated(matches.scores, near, shuffled, len(left))


def _vectors(
    left: Sentences, right: Sentences, encoder: Encoder, folder: Path, cache: Path | str | None, on_progress: OnProgress
) -> tuple[Vectors, Vectors]:
    """The vectors of both sides, mapped."""
    one, other = (
        embedded(name, side.blocks(BLOCK), content_hash(side.hashes.data), len(side), encoder, folder, cache, on_progress)
        for name, side in (("source", left), ("target", right))
    )
    return one, other


def opened(model: Encoder | str, device: str) -> Encoder:
    """A model by its name, or as it is."""
    if not isinstance(model, str):
        return model
    from isogloss.models.encoders.open import open_encoder

    return open_encoder(model, device)


@contextmanager
def working_in(folder: Path | str | None) -> Iterator[Path]:
    """The folder of unfinished work, or one that is gone afterwards."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def _reading(how: MiningSettings, language: str) -> ReadingSettings:
    return ReadingSettings(language, how.with_ids, how.documents, how.min_language)


def _refuse_nonsense(source: object, target: object, how: MiningSettings) -> None:
    """Say before the work what cannot be done."""
    if str(source) == str(target) == STANDARD_INPUT:
        raise DataError("both sides cannot be standard input", hint="put one of them in a file")
    refuse_odd_threshold(how.threshold, (AUTO, f"{GOLD}FILE"))
    if not 0 < how.precision < 1:
        raise DataError(f"precision = {how.precision} is no share between 0 and 1", hint="0.9 is usual")


def refuse_odd_threshold(threshold: str, words: tuple[str, ...]) -> None:
    """A threshold is a number, or one of some words."""
    if threshold in words or (threshold.startswith(GOLD) and len(threshold) > len(GOLD) and any(GOLD in one for one in words)):
        return
    try:
        number = float(threshold)
    except ValueError:
        number = float("nan")
    if number != number:
        raise DataError(f"threshold = {threshold!r} is not understood", hint=f"give a number, or {', '.join(words)}")


def _lost(account: Account) -> str:
    """Why sentences were left out."""
    reasons = {
        "were empty": account.empty,
        "were too long for a sentence": account.too_long,
        "came before": account.duplicate,
        "are in another language": account.wrong_language,
        "are written alike on both sides (--keep-identical keeps them)": account.on_both_sides,
    }
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)

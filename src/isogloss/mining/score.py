"""Score existing pairs: which lines of a bitext are translations of each other.

The score is the margin of `mine`: the cosine of the two sides against their nearest sentences in the same bitext, per language.
Wrong lines are mostly random, so precision is estimated from shuffled pairs (`calibration`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isogloss.config.mining import ScoringSettings, SearchSettings
from isogloss.corpora.reading.readers import bitext_of
from isogloss.corpora.text.side import Side
from isogloss.mining.calibration import Calibration, calibrated
from isogloss.mining.margin import margin_scores
from isogloss.mining.mine import AUTO, check_threshold, work_folder
from isogloss.mining.output import write_pairs
from isogloss.mining.vectors import embedded
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.neighbors import both_ways, pair_cosines
from isogloss.types import Bitext, FloatArray, IntArray

NONE = "none"


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Pairs above the threshold with their scores, in the order given."""

    pairs: pa.Table  # score, and the columns of a bitext
    read: int
    thresholds: dict[str, float] = field(default_factory=dict)  # by language
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.pairs.num_rows)

    def write(self, path: Path | str) -> None:
        """Write the pairs as TSV, JSON lines or Parquet, by the file's name."""
        write_pairs(self.pairs, Path(path))

    def summary(self) -> dict[str, Any]:
        """Counts, quantiles of the scores, thresholds and curves, for JSON."""
        scores = self.pairs.column("score").to_numpy()
        quantiles = np.quantile(scores, [0.05, 0.25, 0.5, 0.75, 0.95]).round(4).tolist() if len(self) else []
        summary: dict[str, Any] = {"read": self.read, "pairs": len(self), "score_quantiles": quantiles}
        if self.thresholds:
            summary["thresholds"] = {name: value if np.isfinite(value) else None for name, value in self.thresholds.items()}
        if self.calibrations:
            summary["calibrations"] = {name: curve.as_dict() for name, curve in self.calibrations.items()}
        return summary


def score(
    model: Encoder | str,
    pairs: str | Path | Sequence[str | Path] | Bitext,
    settings: ScoringSettings | None = None,
    on_progress: OnProgress = silent,
) -> Scored:
    """Score pairs by their margin, and drop those below the threshold. `pairs` is anything that `read` takes."""
    how = settings or ScoringSettings()
    check_threshold(how.threshold, (NONE, AUTO))
    bitext = bitext_of(pairs)
    encoder = open_encoder(model, how.device) if isinstance(model, str) else model
    scores = np.zeros(len(bitext), dtype=np.float32)
    kept = np.ones(len(bitext), dtype=np.bool_)
    thresholds, calibrations = {}, {}
    languages = bitext.table.column("language").combine_chunks().dictionary_encode()
    for number, language in enumerate(languages.dictionary.to_pylist()):
        rows = np.flatnonzero(languages.indices.to_numpy() == number)
        own = bitext.table.take(pa.array(rows))
        scores[rows], wrong = _scored(own, language, encoder, how, on_progress)
        if how.threshold == AUTO:
            calibrations[language] = calibrated(scores[rows], wrong, wrong[np.isfinite(wrong)], len(rows))
            thresholds[language] = calibrations[language].threshold_for(how.precision)
        elif how.threshold != NONE:
            thresholds[language] = float(how.threshold)
        kept[rows] = scores[rows] >= thresholds.get(language, -np.inf)
    table = bitext.table.add_column(0, "score", pa.array(scores)).filter(pa.array(kept))
    return Scored(table, len(bitext), thresholds, calibrations)


def _scored(
    pairs: pa.Table, language: str, encoder: Encoder, how: ScoringSettings, on_progress: OnProgress
) -> tuple[FloatArray, FloatArray]:
    """The scores of one language's pairs, and of the same sources with shuffled targets."""
    with work_folder(how.folder) as folder:
        sides = []
        for name in ("source", "target"):
            encoded = pairs.column(name).combine_chunks().dictionary_encode()
            texts, rows = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
            hashes = Side(texts, language).exact_hashes
            vectors = embedded(f"{name} {language}", texts, hashes, encoder, folder, how.cache, on_progress)
            sides.append((vectors, rows))
        (left, of_left), (right, of_right) = sides
        means = [np.zeros(len(left), np.float32), np.zeros(len(right), np.float32)]
        if how.margin != "absolute":
            search = SearchSettings(device=how.device, memory=how.memory, folder=how.folder)
            found = both_ways(left, right, how.k, search, on_progress, f"neighbors {language}")
            means = [found[0].mean, found[1].mean]

        def margins(other: IntArray) -> FloatArray:
            cosine = pair_cosines(left, right, of_left, other)
            return margin_scores(cosine, means[0][of_left], means[1][other], how.margin)

        shuffled = derangement(of_right)
        wrong = margins(shuffled)
        wrong[shuffled == of_right] = -np.inf  # the same text on another line
        return margins(of_right), wrong


def derangement(rows: IntArray) -> IntArray:
    """The rows shuffled so that none stays in its place; in a plain shuffle one does, on average."""
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = np.empty_like(rows)
    shuffled[order] = rows[np.roll(order, 1)]
    return shuffled

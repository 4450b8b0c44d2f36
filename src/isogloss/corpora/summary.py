"""Summarize a prepared store: counts, token lengths, overlap, samples, and what each balancing scheme would draw from it.

`summarize` reads the pairs once, in bounded memory. `isogloss corpora show` prints it, `report/corpora_page.py` draws it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from isogloss.amounts import amount
from isogloss.config import BalanceSettings
from isogloss.corpora.overlap import LIMIT, Overlap, SourceSketch
from isogloss.corpora.preparation.manifest import Line, grouped, waterfall
from isogloss.corpora.sampling.shares import Share, plan
from isogloss.corpora.store import MANIFEST, Store
from isogloss.corpora.text.arrays import rows_by
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import TRAIN, IntArray, Pair

SAMPLES, SEED = 3, 17
SCHEMES = ("everything", "corpora", "languages", "datasets")  # "proportional" shares as "everything" does
# Lower edges of the bins of a length histogram, in steps of about √2.
BINS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 129)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of sentences in tokens. Quantiles are lengths that occur; `histogram` counts per bin of `BINS`."""

    mean: float
    median: int
    most: int  # the 95th percentile
    longest: int
    histogram: tuple[int, ...]

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self:
        """From how often each length occurs."""
        lengths = np.array(sorted(counts), dtype=np.int64)
        times = np.array([counts[length] for length in lengths.tolist()], dtype=np.int64)
        reached, total = np.cumsum(times), int(times.sum())
        median, most = (int(lengths[np.searchsorted(reached, np.ceil(share * total))]) for share in (0.5, 0.95))
        histogram, _ = np.histogram(lengths, [*BINS, np.inf], weights=times)
        return cls(float(lengths @ times / total), median, most, int(lengths[-1]), tuple(histogram.tolist()))


@dataclass(frozen=True, slots=True)
class LanguageSummary:
    """One target language: counts, lengths of both sides, a few pairs."""

    language: str
    train: int
    test: int
    source: Lengths
    target: Lengths
    samples: tuple[Pair, ...]

    @property
    def pairs(self) -> int:
        """Both splits together."""
        return self.train + self.test


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """What a balancing scheme with its default settings draws per epoch from each corpus in each language."""

    scheme: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a store. `cells` are sorted by corpus and language, `languages` by name."""

    source_language: str
    cells: tuple[Line, ...]
    languages: tuple[LanguageSummary, ...]
    overlap: Overlap
    plans: tuple[EpochPlan, ...]

    @property
    def pairs(self) -> int:
        """All pairs of the store."""
        return sum(cell.pairs for cell in self.cells)

    @property
    def corpora(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(sorted({cell.corpus for cell in self.cells}))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        plain = asdict(self)
        for language, own in zip(plain["languages"], self.languages, strict=True):
            language["samples"] = [pair._asdict() for pair in own.samples]
        return plain | {"pairs": self.pairs, "histogram_bins": list(BINS)}


def summarize(store: Store, samples: int = SAMPLES, on_progress: OnProgress = silent, limit: int = LIMIT) -> Summary:
    """Read a store once and summarize it, with `samples` random pairs per language, the same ones every time.

    `limit` bounds the memory for comparing source sentences; beyond it they are sampled (overlap.py).
    """
    sketch, random = SourceSketch(limit), np.random.default_rng(SEED)
    lengths: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)  # by language and side
    drawn: dict[str, list[tuple[float, Pair]]] = defaultdict(list)  # by language: the pairs with the lowest random numbers
    rows = 0
    for block in store.in_blocks():
        sides = {name: Side(block.column(name), "") for name in ("source", "target")}
        tokens = {name: side.token_counts for name, side in sides.items()}
        tickets = random.random(block.num_rows)
        for corpus, language, own in _groups(block):
            sketch.add(corpus, language, sides["source"].exact_hashes[own])
            for name, counted in tokens.items():
                lengths[language, name].update(counted[own].tolist())
            best = own[np.argsort(tickets[own])[:samples]]
            pairs = (Pair(**row) for row in block.take(pa.array(best)).to_pylist())
            drawn[language] += zip(tickets[best].tolist(), pairs, strict=True)
            drawn[language] = sorted(drawn[language], key=lambda draw: draw[0])[:samples]
        rows += block.num_rows
        on_progress(Step("reading the store", rows, len(store), "pairs"))
    if rows != len(store) or not rows:
        raise DataError(
            f"{store.folder}: its parts have {amount(rows, 'pair')}, {MANIFEST} says {len(store):,}",
            hint="run the same isogloss prepare again",
        )
    cells = tuple(line for line in waterfall(store.manifest) if line.pairs)
    languages = []
    for line in grouped(cells, "language"):
        code = line.language
        source, target = (Lengths.of(lengths[code, side]) for side in ("source", "target"))
        samples_of = tuple(pair for _, pair in drawn[code])
        languages.append(LanguageSummary(code, line.train, line.test, source, target, samples_of))
    trained = store.pair_counts().of_split(TRAIN)
    settings = [BalanceSettings().replace(scheme=scheme) for scheme in SCHEMES]
    plans = tuple(EpochPlan(one.scheme, plan(trained, one) if trained else ()) for one in settings)
    return Summary(store.source_language, cells, tuple(languages), sketch.overlap(), plans)


def _groups(table: pa.Table) -> Iterator[tuple[str, str, IntArray]]:
    """The rows of each corpus in each language."""
    for corpus, rows in rows_by(table.column("corpus")):
        for language, own in rows_by(table.column("language").take(pa.array(rows))):
            yield corpus, language, rows[own]

"""Decide which scored pairs are kept: by thresholds, the leak scan, duplicates, text of the test split, and limits.

Only scores and hashes are read, never text. Comparisons across all pairs go through slices of the space of hashes, so memory
depends on the slice and not on the number of pairs.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.leaks.scan import LEVELS
from isogloss.corpora.preparation.pair_limits import NO_LIMITS, PER_CORPUS, PER_LANGUAGE, PairLimits, beyond
from isogloss.corpora.preparation.score_blocks import score_column
from isogloss.corpora.reading.compression import PARQUET_FAULTS
from isogloss.corpora.text.arrays import begins_run
from isogloss.corpora.text.hashing import Hashes, among, combine, distinct, mix
from isogloss.corpora.text.minhash import BANDS, HASHES, Signatures, bands, likeness
from isogloss.errors import DataError
from isogloss.storage import content_hash
from isogloss.types import TEST, BoolArray, IntArray

KEPT = 0
ROWS_PER_SLICE = 1_500_000
LEAK_REASONS = tuple(f"in an evaluation set ({level})" for level in LEVELS[1:])
DUPLICATE, NEAR_DUPLICATE, IN_TEST_SPLIT = "duplicate", "near duplicate", "in the test split"

InSlice = Callable[[Hashes], BoolArray]


@dataclass(slots=True, eq=False)
class ScoredPart:
    """The scored pairs of one feed in one language: their file, their rules, and the reason (0: kept) and split of each row."""

    path: Path
    corpus: str
    language: str
    rows: int
    rules: Sequence[Rule] = ()
    reasons: NDArray[np.uint8] = field(init=False)
    test: BoolArray = field(init=False)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[slice, pa.Table]]:
        """Read columns one row group at a time, each with its range of rows."""
        start = 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                try:
                    table = file.read_row_group(group, columns=list(columns))
                except PARQUET_FAULTS as error:
                    hint = "run the same command again: it makes them again"
                    raise DataError(f"{self.path}: the kept scores cannot be read", hint=hint) from error
                yield slice(start, start + table.num_rows), table
                start += table.num_rows


class Selection:
    """Decides about the rows of all scored parts."""

    def __init__(
        self,
        parts: Sequence[ScoredPart],
        settings: CleaningSettings,
        held_out: float,
        rules: Sequence[str],
        limits: PairLimits = NO_LIMITS,
    ) -> None:
        self.parts = parts
        self.settings = settings
        self.held_out = held_out
        self.limits = limits
        self.reasons = ("", *rules, *LEAK_REASONS, DUPLICATE, NEAR_DUPLICATE, IN_TEST_SPLIT, *limits.reasons)
        self._number = {name: number for number, name in enumerate(self.reasons)}
        # All rows in one array; each part has a view of its own rows.
        bounds = [0, *accumulate(part.rows for part in parts)]
        self._reason = np.zeros(bounds[-1], dtype=np.uint8)
        self._test = np.zeros(bounds[-1], dtype=np.bool_)
        self._start = bounds[:-1]
        for part, (start, stop) in zip(parts, pairwise(bounds), strict=True):
            part.reasons, part.test = self._reason[start:stop], self._test[start:stop]

    def run(self) -> None:
        """Decide about every row."""
        for part in self.parts:
            self._apply_rules(part)
        if self.settings.duplicates == "exact":
            self._drop_copies(DUPLICATE, ["pair_hash"], partial(_numbers, name="pair_hash"))
        elif self.settings.duplicates != "keep":
            self._drop_copies(DUPLICATE, ["source_hash", "target_hash"], lambda table: combine(*_sides(table)))
        if self.settings.duplicates == "near":
            for band in range(BANDS):
                self._drop_copies(NEAR_DUPLICATE, ["signature"], partial(_band, band))
        self._drop_test_text()
        self._drop_beyond(self.limits.per_corpus, lambda part: (part.corpus, part.language), PER_CORPUS)
        self._drop_beyond(self.limits.per_language, lambda part: part.language, PER_LANGUAGE)

    def _apply_rules(self, part: ScoredPart) -> None:
        """Decide what depends on one row alone: its split, the first rule that refuses it, and the leak scan."""
        scores = [score_column(rule) for rule in part.rules]
        for rows, table in part.batches(["split", "leak", "source_hash", *scores]):
            drawn = mix(_numbers(table, "source_hash")) < np.uint64(min(int(self.held_out * 2.0**64), 2**64 - 1))
            given = table.column("split")
            part.test[rows] = np.asarray(pc.equal(given, TEST)) | (np.asarray(pc.equal(given, "")) & drawn)
            reasons = part.reasons[rows]
            for rule, score in zip(part.rules, scores, strict=True):
                refused = (reasons == KEPT) & ~rule.accept(table.column(score).to_numpy())
                reasons[refused] = self._number[rule.name]
            leak = table.column("leak").to_numpy()
            leaks = (reasons == KEPT) & (leak > 0) & ~part.test[rows]
            reasons[leaks] = leak[leaks] + self._number[LEAK_REASONS[0]] - 1

    def _slices(self) -> Iterator[InSlice]:
        """Yield a membership test for each slice of the hash space; there are enough slices to keep each one small."""
        count = max(1, -(-len(self._reason) // ROWS_PER_SLICE))
        edges = [number * (2**64 // count) for number in range(count)] + [2**64]
        for low, high in pairwise(edges):
            least, most = np.uint64(low), np.uint64(high - 1)
            yield lambda hashes, least=least, most=most: (hashes >= least) & (hashes <= most)  # type: ignore[misc]

    def _drop_copies(self, reason: str, columns: Sequence[str], keys_of: Callable[[pa.Table], Hashes]) -> None:
        """Keep the first of the pairs with equal keys in a language; pairs of the test split go first, or it would shrink.

        Pairs with an equal band are only near duplicates if their whole signatures are alike.
        """
        near = reason == NEAR_DUPLICATE
        for in_slice in self._slices():
            keys: list[Hashes] = []
            rows: list[NDArray[np.int64]] = []
            signatures: list[Signatures] = []
            for part, start in zip(self.parts, self._start, strict=True):
                language = np.uint64(int(content_hash(part.language)[:16], 16))
                for batch, table in part.batches(columns):
                    kept = np.flatnonzero(part.reasons[batch] == KEPT)
                    key = combine(keys_of(table)[kept], np.full(len(kept), language))
                    inside = in_slice(key)
                    keys.append(key[inside])
                    rows.append(start + batch.start + kept[inside])
                    if near:
                        signatures.append(_signatures(table)[kept[inside]])
            key, row = np.concatenate(keys), np.concatenate(rows)
            order = np.lexsort((row, ~self._test[row], key))
            new = begins_run(key[order])
            copies, firsts = order[~new], order[np.flatnonzero(new)[np.cumsum(new) - 1]][~new]
            if near:
                signature = np.concatenate(signatures)
                copies = copies[likeness(signature[copies], signature[firsts]) >= self.settings.near]
            self._reason[row[copies]] = self._number[reason]

    def _drop_test_text(self) -> None:
        """Drop training pairs with a side that is also a side of a test pair."""
        if not self._test.any():
            return
        for in_slice in self._slices():
            held: list[Hashes] = [np.zeros(0, dtype=np.uint64)]
            for part, rows, sides in self._sides():
                test = part.test[rows] & (part.reasons[rows] == KEPT)
                held += [side[test & in_slice(side)] for side in sides]
            known = distinct(np.concatenate(held))
            for part, rows, sides in self._sides() if len(known) else ():
                reasons = part.reasons[rows]
                found = np.zeros(len(reasons), dtype=np.bool_)
                for side in sides:
                    own = np.flatnonzero(in_slice(side))
                    found[own] |= among(side[own], known)
                reasons[found & ~part.test[rows] & (reasons == KEPT)] = self._number[IN_TEST_SPLIT]

    def _drop_beyond(self, most: int, group_of: Callable[[ScoredPart], Hashable], reason: str) -> None:
        """Drop the training pairs of each group of parts beyond `most` of them; 0 drops none."""
        for group in dict.fromkeys(map(group_of, self.parts)) if most else ():
            own = [place for place, part in enumerate(self.parts) if group_of(part) == group]
            self._reason[beyond(self._training_pairs(own), most, self.limits.seed)] = self._number[reason]

    def _training_pairs(self, places: Sequence[int]) -> Iterator[tuple[IntArray, Hashes, Hashes]]:
        """The kept training pairs of some parts: their rows and hashes, one row group at a time."""
        for place in places:
            part = self.parts[place]
            for rows, table in part.batches(["source_hash", "target_hash"]):
                own = np.flatnonzero((part.reasons[rows] == KEPT) & ~part.test[rows])
                source, target = _sides(table)
                yield self._start[place] + rows.start + own, source[own], target[own]

    def _sides(self) -> Iterator[tuple[ScoredPart, slice, tuple[Hashes, Hashes]]]:
        for part in self.parts:
            for rows, table in part.batches(["source_hash", "target_hash"]):
                yield part, rows, _sides(table)


def _sides(table: pa.Table) -> tuple[Hashes, Hashes]:
    return _numbers(table, "source_hash"), _numbers(table, "target_hash")


def _numbers(table: pa.Table, name: str) -> Hashes:
    values: Hashes = table.column(name).to_numpy()
    return values


def _band(band: int, table: pa.Table) -> Hashes:
    return bands(_signatures(table))[:, band]


def _signatures(table: pa.Table) -> Signatures:
    column = table.column("signature").combine_chunks()
    buffer = np.frombuffer(column.buffers()[1], dtype=np.uint16)
    return buffer.reshape(-1, HASHES)[column.offset : column.offset + len(column)]

"""Which scored pairs stay, and why the others do not: thresholds, leaks, copies, held-out text.

Text is not read here, only scores and hashes. What has to be compared across all pairs (copies, text of the test split)
is done in slices of the space of hashes, so that memory depends on the slice and not on the number of pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.leaks.scan import LEVELS
from isogloss.corpora.preparation.score_blocks import score_column
from isogloss.corpora.reading.compression import PARQUET_FAULTS
from isogloss.corpora.text.hashing import Hashes, among, combine, distinct, mix
from isogloss.corpora.text.minhash import BANDS, HASHES, bands, likeness
from isogloss.errors import DataError
from isogloss.storage import content_hash
from isogloss.types import TEST, BoolArray, IntArray

KEPT = 0
ROWS_A_SLICE = 1_500_000
LEAK_REASONS = tuple(f"in an evaluation set ({level})" for level in LEVELS[1:])
COPY, NEAR_COPY, HELD_OUT = "duplicate", "near duplicate", "in the test split"

RulesOf = Callable[[str], Sequence[Rule]]  # by target language: automatic thresholds differ


@dataclass(slots=True, eq=False)
class Scored:
    """A part that was scored: its file, and for every row the number of the reason it goes (0: it stays) and its split."""

    path: Path
    corpus: str
    reasons: NDArray[np.uint8]
    test: NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return len(self.reasons)

    def columns(self) -> list[str]:
        """The columns its file has."""
        with pq.ParquetFile(self.path) as file:
            names: list[str] = file.schema_arrow.names
        return names

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[slice, pa.Table]]:
        """Some columns, row group by row group, with the rows they are."""
        start = 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                try:
                    table = file.read_row_group(group, columns=list(columns))
                except PARQUET_FAULTS as error:
                    raise DataError(
                        f"{self.path}: kept scores cannot be read", hint="the same command makes them again"
                    ) from error
                yield slice(start, start + table.num_rows), table
                start += table.num_rows


class Selection:
    """Goes over all scored parts and fills in their reasons."""

    def __init__(self, parts: Sequence[Scored], settings: CleaningSettings, held_out: float, rule_names: Sequence[str]) -> None:
        self.parts = parts
        self.settings = settings
        self.held_out = held_out
        self.reasons = ("", *rule_names, *LEAK_REASONS, COPY, NEAR_COPY, HELD_OUT)
        self._number = {name: number for number, name in enumerate(self.reasons)}

    def run(self, rules_of: Callable[[str], RulesOf]) -> None:
        """Decide for every row. `rules_of(corpus)(language)` are the rules with their thresholds."""
        for part in self.parts:
            self._judge(part, rules_of(part.corpus))
        if self.settings.duplicates != "keep":
            self._drop_copies()
        if self.settings.duplicates == "near":
            self._drop_near_copies()
        self._drop_held_out_text()

    def _judge(self, part: Scored, rules_of: RulesOf) -> None:
        """What can be said row by row: the split, the first rule that refuses the row, and the leak scan."""
        by_language: dict[str, Sequence[Rule]] = {}
        scores = [name for name in part.columns() if name.startswith("score ")]
        for rows, table in part.batches(["language", "split", "leak", "source_hash", *scores]):
            given, hashes = table.column("split").combine_chunks(), _numbers(table, "source_hash")
            chosen = mix(hashes) < np.uint64(min(int(self.held_out * 2.0**64), 2**64 - 1))
            part.test[rows] = _equal(given, TEST) | (_equal(given, "") & chosen)
            reasons = np.zeros(table.num_rows, dtype=np.uint8)
            codes = table.column("language").combine_chunks().dictionary_encode()
            for number, language in enumerate(codes.dictionary.to_pylist()):
                own = codes.indices.to_numpy() == number
                for rule in by_language.setdefault(language, rules_of(language)):
                    score = table.column(score_column(rule)).to_numpy()
                    refused = own & (reasons == KEPT) & ~(np.isnan(score) | rule.accept(score))
                    reasons[refused] = self._number[rule.name]
            leak = _numbers(table, "leak")
            leaks = (reasons == KEPT) & (leak > 0) & ~part.test[rows]
            reasons[leaks] = leak[leaks] + self._number[LEAK_REASONS[0]] - 1
            part.reasons[rows] = reasons

    def _slices(self) -> Iterator[Callable[[Hashes], BoolArray]]:
        """Cut the space of hashes into as many slices as keep each small; each is a test of membership."""
        count = max(1, -(-sum(part.rows for part in self.parts) // ROWS_A_SLICE))
        edges = [number * (2**64 // count) for number in range(count)] + [2**64]
        for low, high in pairwise(edges):
            if count == 1:
                yield lambda hashes: np.ones(len(hashes), dtype=np.bool_)
            else:
                least, most = np.uint64(low), np.uint64(high - 1)
                yield lambda hashes, least=least, most=most: (hashes >= least) & (hashes <= most)  # type: ignore[misc]

    def _drop_copies(self) -> None:
        """Of equal pairs in one language the first stays; a held-out one before others, or the test set would shrink."""
        exact = self.settings.duplicates == "exact"
        for within in self._slices():
            keys, places = [], []
            for number, part in enumerate(self.parts):
                for rows, table in part.batches(["language", "source_hash", "target_hash", "pair_hash"]):
                    key = _numbers(table, "pair_hash")
                    if not exact:
                        key = combine(_numbers(table, "source_hash"), _numbers(table, "target_hash"))
                    key = combine(key, _language_hashes(table))
                    mine = np.flatnonzero(within(key) & (part.reasons[rows] == KEPT))
                    keys.append(key[mine])
                    places.append(_place(number, rows, mine, part.test[rows][mine]))
            self._mark(_later_copies(np.concatenate(keys), np.concatenate(places)), COPY)

    def _drop_near_copies(self) -> None:
        """Of pairs with much the same words the first stays: candidates share a band, their signatures decide."""
        for band in range(BANDS):
            for within in self._slices():
                keys, places, signatures = self._near_candidates(band, within)
                order = np.lexsort((places, keys))
                keys, places, signatures = keys[order], places[order], signatures[order]
                first = np.maximum.accumulate(np.where(np.append(True, keys[1:] != keys[:-1]), np.arange(len(keys)), 0))
                alike = likeness(signatures, signatures[first]) >= self.settings.near
                self._mark(places[alike & (first != np.arange(len(keys)))], NEAR_COPY)

    def _near_candidates(self, band: int, within: Callable[[Hashes], BoolArray]) -> tuple[Hashes, IntArray, NDArray[np.uint16]]:
        keys, places, kept = [], [], []
        for number, part in enumerate(self.parts):
            for rows, table in part.batches(["language", "signature"]):
                signature = _signatures(table)
                key = combine(bands(signature)[:, band], _language_hashes(table))
                mine = np.flatnonzero(within(key) & (part.reasons[rows] == KEPT))
                keys.append(key[mine])
                places.append(_place(number, rows, mine, part.test[rows][mine]))
                kept.append(signature[mine])
        return np.concatenate(keys), np.concatenate(places), np.concatenate(kept)

    def _drop_held_out_text(self) -> None:
        """Training pairs go of which a side is also a side of a held-out pair."""
        if not any(part.test.any() for part in self.parts):
            return
        for within in self._slices():
            held: list[Hashes] = []
            for part, rows, sides in self._sides():
                mine = part.test[rows] & (part.reasons[rows] == KEPT)
                held += [side[mine & within(side)] for side in sides]
            known = distinct(np.concatenate([np.zeros(0, dtype=np.uint64), *held]))
            if not len(known):
                continue
            for part, rows, sides in self._sides():
                touched = np.zeros(len(sides[0]), dtype=np.bool_)
                for side in sides:
                    own = np.flatnonzero(within(side))
                    touched[own] |= among(side[own], known)
                reasons = part.reasons[rows]
                reasons[touched & ~part.test[rows] & (reasons == KEPT)] = self._number[HELD_OUT]

    def _sides(self) -> Iterator[tuple[Scored, slice, tuple[Hashes, Hashes]]]:
        for part in self.parts:
            for rows, table in part.batches(["source_hash", "target_hash"]):
                yield part, rows, (_numbers(table, "source_hash"), _numbers(table, "target_hash"))

    def _mark(self, places: IntArray, reason: str) -> None:
        part_numbers = (places >> 40) & 0x3FFFFF
        for number in np.unique(part_numbers):
            rows = places[part_numbers == number] & ((1 << 40) - 1)
            self.parts[number].reasons[rows] = self._number[reason]


def _place(part: int, rows: slice, mine: IntArray, test: BoolArray) -> IntArray:
    """Part and row in one number that sorts in the order of preference: held-out rows first, then as they were given."""
    return np.asarray((np.where(test, 0, 1) << 62) | (part << 40) | (rows.start + mine), dtype=np.int64)


def _later_copies(keys: Hashes, places: IntArray) -> IntArray:
    """The places of all but the first of each key."""
    order = np.lexsort((places, keys))
    keys, places = keys[order], places[order]
    again = np.append(False, keys[1:] == keys[:-1]) if len(keys) else np.zeros(0, dtype=np.bool_)
    return np.asarray(places[again])


def _numbers(table: pa.Table, name: str) -> NDArray[np.uint64]:
    values: NDArray[np.uint64] = table.column(name).to_numpy()
    return values


def _signatures(table: pa.Table) -> NDArray[np.uint16]:
    column = table.column("signature").combine_chunks()
    buffer = np.frombuffer(column.buffers()[1], dtype=np.uint16)
    return buffer.reshape(-1, HASHES)[column.offset : column.offset + len(column)]


def _language_hashes(table: pa.Table) -> Hashes:
    codes = table.column("language").combine_chunks().dictionary_encode()
    names = [int(content_hash(name)[:16], 16) for name in codes.dictionary.to_pylist()]
    return np.asarray(np.array(names, dtype=np.uint64)[codes.indices.to_numpy()])


def _equal(column: pa.Array, value: str) -> BoolArray:
    mask: BoolArray = pc.equal(column, value).to_numpy(zero_copy_only=False)
    return mask

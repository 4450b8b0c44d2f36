"""Which scored pairs are kept, and why the others are dropped: thresholds, leaks, duplicates, text of the test split.

Only scores and hashes are read, never text. Comparisons across all pairs go through slices of the space of hashes, so memory
depends on the slice and not on the number of pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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
ROWS_PER_SLICE = 1_500_000
LEAK_REASONS = tuple(f"in an evaluation set ({level})" for level in LEVELS[1:])
DUPLICATE, NEAR_DUPLICATE, IN_TEST_SPLIT = "duplicate", "near duplicate", "in the test split"

RulesFor = Callable[[str, str], Sequence[Rule]]  # by corpus and target language, since automatic thresholds differ
InSlice = Callable[[Hashes], BoolArray]


@dataclass(slots=True, eq=False)
class ScoredPart:
    """The scored pairs of one feed in one language: their file, and for each row its reason (0: kept) and its split."""

    path: Path
    corpus: str
    language: str
    rows: int
    reasons: NDArray[np.uint8] = field(init=False)
    test: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        self.reasons, self.test = np.zeros(self.rows, dtype=np.uint8), np.zeros(self.rows, dtype=np.bool_)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[slice, pa.Table]]:
        """Some columns, one row group at a time, with the rows they are."""
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
    """Fills in the reasons of all scored parts."""

    def __init__(
        self, parts: Sequence[ScoredPart], settings: CleaningSettings, held_out: float, rule_names: Sequence[str]
    ) -> None:
        self.parts = parts
        self.settings = settings
        self.held_out = held_out
        self.reasons = ("", *rule_names, *LEAK_REASONS, DUPLICATE, NEAR_DUPLICATE, IN_TEST_SPLIT)
        self._number = {name: number for number, name in enumerate(self.reasons)}

    def run(self, rules_for: RulesFor) -> None:
        """Decide about every row."""
        for part in self.parts:
            self._apply_rules(part, rules_for(part.corpus, part.language))
        if self.settings.duplicates != "keep":
            self._drop_duplicates()
        if self.settings.duplicates == "near":
            self._drop_near_duplicates()
        self._drop_test_text()

    def _apply_rules(self, part: ScoredPart, rules: Sequence[Rule]) -> None:
        """What depends on one row alone: its split, the first rule that refuses it, and the leak scan."""
        scores = [score_column(rule) for rule in rules]
        for rows, table in part.batches(["split", "leak", "source_hash", *scores]):
            given, hashes = table.column("split").combine_chunks(), _numbers(table, "source_hash")
            drawn = mix(hashes) < np.uint64(min(int(self.held_out * 2.0**64), 2**64 - 1))
            part.test[rows] = _equal(given, TEST) | (_equal(given, "") & drawn)
            reasons = np.zeros(table.num_rows, dtype=np.uint8)
            for rule in rules:
                refused = (reasons == KEPT) & ~rule.accept(table.column(score_column(rule)).to_numpy())
                reasons[refused] = self._number[rule.name]
            leak = _numbers(table, "leak")
            leaks = (reasons == KEPT) & (leak > 0) & ~part.test[rows]
            reasons[leaks] = leak[leaks] + self._number[LEAK_REASONS[0]] - 1
            part.reasons[rows] = reasons

    def _slices(self) -> Iterator[InSlice]:
        """Tests of membership in slices of the space of hashes, as many as keep each slice small."""
        count = max(1, -(-sum(part.rows for part in self.parts) // ROWS_PER_SLICE))
        edges = [number * (2**64 // count) for number in range(count)] + [2**64]
        for low, high in pairwise(edges):
            least, most = np.uint64(low), np.uint64(high - 1)
            yield lambda hashes, least=least, most=most: (hashes >= least) & (hashes <= most)  # type: ignore[misc]

    def _kept_rows(self, columns: Sequence[str]) -> Iterator[tuple[pa.Table, IntArray, IntArray]]:
        """Tables of all parts, with the numbers of their kept rows and the places of those (see `_place`)."""
        for number, part in enumerate(self.parts):
            for rows, table in part.batches(columns):
                kept = np.flatnonzero(part.reasons[rows] == KEPT)
                yield table, kept, _place(number, rows.start + kept, part.test[rows][kept])

    def _drop_duplicates(self) -> None:
        """Keep the first of equal pairs in a language; one of the test split before others, or it would shrink."""
        exact = self.settings.duplicates == "exact"
        columns = ["pair_hash"] if exact else ["source_hash", "target_hash"]
        for in_slice in self._slices():
            keys, places = [], []
            for table, kept, place in self._kept_rows(["language", *columns]):
                hashes = [_numbers(table, name)[kept] for name in columns]
                key = combine(hashes[0] if exact else combine(*hashes), _language_hashes(table)[kept])
                inside = in_slice(key)
                keys.append(key[inside])
                places.append(place[inside])
            self._drop(_later_copies(np.concatenate(keys), np.concatenate(places)), DUPLICATE)

    def _drop_near_duplicates(self) -> None:
        """Keep the first of pairs with nearly the same words: candidates share a band, their signatures decide."""
        for band in range(BANDS):
            for in_slice in self._slices():
                keys, places, signatures = self._near_candidates(band, in_slice)
                order = np.lexsort((places, keys))
                keys, places, signatures = keys[order], places[order], signatures[order]
                first = np.maximum.accumulate(np.where(np.append(True, keys[1:] != keys[:-1]), np.arange(len(keys)), 0))
                alike = likeness(signatures, signatures[first]) >= self.settings.near
                self._drop(places[alike & (first != np.arange(len(keys)))], NEAR_DUPLICATE)

    def _near_candidates(self, band: int, in_slice: InSlice) -> tuple[Hashes, IntArray, NDArray[np.uint16]]:
        keys, places, signatures = [], [], []
        for table, kept, place in self._kept_rows(["language", "signature"]):
            signature = _signatures(table)[kept]
            key = combine(bands(signature)[:, band], _language_hashes(table)[kept])
            inside = in_slice(key)
            keys.append(key[inside])
            places.append(place[inside])
            signatures.append(signature[inside])
        return np.concatenate(keys), np.concatenate(places), np.concatenate(signatures)

    def _drop_test_text(self) -> None:
        """Drop training pairs with a side that is also a side of a test pair."""
        if not any(part.test.any() for part in self.parts):
            return
        for in_slice in self._slices():
            held: list[Hashes] = [np.zeros(0, dtype=np.uint64)]
            for part, rows, sides in self._sides():
                test = part.test[rows] & (part.reasons[rows] == KEPT)
                held += [side[test & in_slice(side)] for side in sides]
            known = distinct(np.concatenate(held))
            if not len(known):
                continue
            for part, rows, sides in self._sides():
                reasons = part.reasons[rows]
                found = np.zeros(len(reasons), dtype=np.bool_)
                for side in sides:
                    own = np.flatnonzero(in_slice(side))
                    found[own] |= among(side[own], known)
                reasons[found & ~part.test[rows] & (reasons == KEPT)] = self._number[IN_TEST_SPLIT]

    def _sides(self) -> Iterator[tuple[ScoredPart, slice, tuple[Hashes, Hashes]]]:
        for part in self.parts:
            for rows, table in part.batches(["source_hash", "target_hash"]):
                yield part, rows, (_numbers(table, "source_hash"), _numbers(table, "target_hash"))

    def _drop(self, places: IntArray, reason: str) -> None:
        part_numbers = (places >> 40) & 0x3FFFFF
        for number in np.unique(part_numbers):
            rows = places[part_numbers == number] & ((1 << 40) - 1)
            self.parts[number].reasons[rows] = self._number[reason]


def _place(part: int, rows: IntArray, test: BoolArray) -> IntArray:
    """Part and row in one number that sorts in the order of preference: the test split first, then the order of input."""
    return np.asarray((np.where(test, 0, 1) << 62) | (part << 40) | rows, dtype=np.int64)


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

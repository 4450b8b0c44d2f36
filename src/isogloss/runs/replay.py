"""What is trained on when a language is added: its own pairs, and some of the old languages' again.

A network that is trained on new things alone loses old ones; seeing a few of them again keeps them (rehearsal, Robins
1995). `draw` takes as many pairs of each old language, as far as it has them, and keeps them in a file, so that the old
store, however large, is gone through once.

Held-out text stays held out: a pair is not trained on if a side of it is also in the test split, be it that of the old
pairs or that of the new ones (letters and digits compared, as `preparation/selection.py` does within one store). `finished`
knows where the old pairs are; `adding` trains on what comes out of here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isogloss.checksums import SEAL_BYTES, is_usable, sealing
from isogloss.corpora.text.hashing import Hashes, among, distinct
from isogloss.corpora.text.side import Side
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.types import ROWS_A_BLOCK, SCHEMA, TEST, TRAIN, BoolArray, PairCounts, PairSource

SIDES = ("source", "target")


class Together:
    """Several sources of pairs as one, one after the other."""

    def __init__(self, parts: Sequence[PairSource]) -> None:
        self.parts = tuple(parts)
        self.source_language = self.parts[0].source_language
        self.languages = tuple(sorted({language for part in self.parts for language in part.languages}))
        self.hash = content_hash(*(part.hash for part in self.parts))

    def __len__(self) -> int:
        """Number of pairs of all of them."""
        return sum(len(part) for part in self.parts)

    def pair_counts(self) -> PairCounts:
        """Pairs by corpus, language and split, of all of them."""
        return PairCounts(dict(sum((Counter(part.pair_counts().cells) for part in self.parts), Counter())))

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs of the first, then those of the next."""
        for part in self.parts:
            yield from part.in_blocks(split)


def held_out_text(pairs: PairSource) -> Hashes:
    """Both sides of all held-out pairs, by their letters and digits, as sorted hashes."""
    found = [_hashes(block, side) for block in pairs.in_blocks(TEST) for side in SIDES]
    return distinct(np.concatenate([np.zeros(0, dtype=np.uint64), *found]))


def _hashes(block: pa.Table, side: str) -> Hashes:
    return Side(block.column(side), "").normalized_hashes


def _touches(block: pa.Table, held: Hashes) -> BoolArray:
    """Which pairs have a side that is held-out text."""
    return among(_hashes(block, SIDES[0]), held) | among(_hashes(block, SIDES[1]), held)


class Clear:
    """Pairs of which the training ones touch no held-out text of others; `left_out` is how many did."""

    def __init__(self, pairs: PairSource, held: Hashes) -> None:
        self.pairs, self.held = pairs, held
        self.source_language, self.languages = pairs.source_language, pairs.languages
        touched = [block.filter(pa.array(_touches(block, held))) for block in pairs.in_blocks(TRAIN)]
        self._left_out = PairCounts.of(pa.concat_tables([SCHEMA.empty_table(), *touched]))
        self.left_out = self._left_out.total()
        self.hash = content_hash(pairs.hash, held.tobytes()) if self.left_out else pairs.hash

    def __len__(self) -> int:
        """Number of pairs that are left."""
        return len(self.pairs) - self.left_out

    def pair_counts(self) -> PairCounts:
        """Pairs that are left, by corpus, language and split."""
        return PairCounts(dict(Counter(self.pairs.pair_counts().cells) - Counter(self._left_out.cells)))

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs that are left, block by block."""
        for block in self.pairs.in_blocks(split):
            if self.left_out:
                tested = pc.equal(block.column("split"), TEST).to_numpy(zero_copy_only=False)
                block = block.filter(pa.array(tested | ~_touches(block, self.held)))
            yield block


# ── the replay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Drawn:
    """Training pairs that were drawn and are kept in a file, as a source of pairs."""

    path: Path
    source_language: str
    hash: str
    counts: dict[str, int]

    @classmethod
    def open(cls, path: Path, source_language: str, key: str) -> Self | None:
        """What was drawn before; None if it is not there, or was damaged."""
        if not is_usable(path):
            return None
        column = pq.read_table(_content(path), columns=["language"]).column(0)
        counted = {one["values"]: one["counts"] for one in pc.value_counts(column).to_pylist()}
        return cls(path, source_language, key, dict(sorted(counted.items())))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that pairs were drawn of, sorted."""
        return tuple(self.counts)

    def __len__(self) -> int:
        """Number of pairs."""
        return sum(self.counts.values())

    def pair_counts(self) -> PairCounts:
        """Pairs by language, all of them for training."""
        return PairCounts({("", language, TRAIN): count for language, count in self.counts.items()})

    def in_blocks(self, split: str | None = None) -> Iterator[pa.Table]:
        """The pairs, all of them for training."""
        if split in (None, TRAIN):
            with pq.ParquetFile(_content(self.path)) as file:
                for batch in file.iter_batches(ROWS_A_BLOCK):
                    yield pa.Table.from_batches([batch])


def _content(path: Path) -> pa.BufferReader:
    """A sealed Parquet file without its seal: Parquet's own end is looked for at the end of the file."""
    with pa.memory_map(str(path)) as file:
        return pa.BufferReader(file.read_buffer(file.size() - SEAL_BYTES))


def equal_shares(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of `total` each gives: all the same, but what one does not have the others give.

    min(size, share) from the smallest to the largest, where share is what is left over those that are left. Fractions go
    to the larger ones.
    """
    shares: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        shares[name] = min(sizes[name], (total - sum(shares.values())) // (len(sizes) - len(shares)))
    return shares


def draw(
    pairs: PairSource, count: int, held: Hashes, seed: int, folder: Path, on_progress: OnProgress = silent
) -> Drawn | None:
    """Up to `count` training pairs, as many of each language, at random by the seed; None where there are none.

    Source text (pairs of a sentence with itself) is no language and is not drawn, nor is what touches `held`.
    """
    key = content_hash(pairs.hash, held.tobytes(), str(count), str(seed))
    path = folder / f"replay-{key[:16]}.parquet"
    known = Drawn.open(path, pairs.source_language, key)
    if known is not None:
        on_progress(Step("replay", len(known), len(known), "pairs", "reused"))
        return known
    chosen = _chosen(pairs, count, held, seed)
    if not chosen.any():
        return None
    start, total = 0, int(chosen.sum())
    with sealing(path) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for block in pairs.in_blocks(TRAIN):
            some = block.select(SCHEMA.names).filter(pa.array(chosen[start : start + block.num_rows]))
            writer.write_table(some.cast(SCHEMA))
            start += block.num_rows
            on_progress(Step("replay", int(chosen[:start].sum()), total, "pairs"))
    return Drawn.open(path, pairs.source_language, key)


def _chosen(pairs: PairSource, count: int, held: Hashes, seed: int) -> BoolArray:
    """Which training pairs are drawn, in their order."""
    languages = [language for language in pairs.languages if language != pairs.source_language]
    codes = [np.zeros(0, dtype=np.int16)]
    for block in pairs.in_blocks(TRAIN):
        found = pc.index_in(block.column("language"), pa.array(languages, pa.string())).fill_null(-1).to_numpy()
        codes.append(np.where(_touches(block, held), -1, found).astype(np.int16))
    code = np.concatenate(codes)
    sizes = {language: int((code == number).sum()) for number, language in enumerate(languages)}
    chosen = np.zeros(len(code), dtype=np.bool_)
    for language, share in equal_shares(sizes, count).items():
        random = np.random.default_rng([seed, int(content_hash(language)[:8], 16)])  # by its name: others may come and go
        chosen[random.choice(np.flatnonzero(code == languages.index(language)), share, replace=False)] = True
    return chosen

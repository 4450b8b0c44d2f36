"""Replay: when languages are added, some pairs of the old languages are trained on again.

A network that is trained on new data alone forgets old data; rehearsing some of it prevents that (Robins 1995). `draw` samples
the same number of pairs of each old language, or all of a language that has fewer.

Held-out text stays held out: a pair is not trained on if one of its sides is in the test split of the old or the new pairs
(compared by letters and digits, as `preparation/selection.py` does within one store).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.text.hashing import Hashes, among, distinct
from isogloss.corpora.text.side import Side
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.types import SCHEMA, TEST, TRAIN, BoolArray, PairCounts, PairSource, PairView

SIDES = ("source", "target")


def together(parts: Sequence[PairSource]) -> PairView:
    """Several sources of pairs, one after the other."""

    def in_blocks(split: str | None = None) -> Iterator[pa.Table]:
        for part in parts:
            yield from part.in_blocks(split)

    languages = tuple(sorted({language for part in parts for language in part.languages}))
    counts = PairCounts(dict(sum((Counter(part.pair_counts().cells) for part in parts), Counter())))
    return PairView(parts[0].source_language, languages, content_hash(*(part.hash for part in parts)), counts, in_blocks)


def held_out_text(pairs: PairSource) -> Hashes:
    """Sorted hashes of both sides of all held-out pairs, by their letters and digits."""
    found = [_hashes(block, side) for block in pairs.in_blocks(TEST) for side in SIDES]
    return distinct(np.concatenate([np.zeros(0, dtype=np.uint64), *found]))


def _hashes(block: pa.Table, side: str) -> Hashes:
    return Side(block.column(side), "").normalized_hashes


def _touches(block: pa.Table, held: Hashes) -> BoolArray:
    """Which pairs have a held-out text on one side."""
    return among(_hashes(block, SIDES[0]), held) | among(_hashes(block, SIDES[1]), held)


def without_held_out(pairs: PairSource, held: Hashes) -> PairView:
    """The pairs without training pairs that contain held-out text."""
    touched = [block.filter(pa.array(_touches(block, held))) for block in pairs.in_blocks(TRAIN)]
    removed = PairCounts.of(pa.concat_tables([SCHEMA.empty_table(), *touched])).cells
    counts = PairCounts(dict(Counter(pairs.pair_counts().cells) - Counter(removed)))

    def in_blocks(split: str | None = None) -> Iterator[pa.Table]:
        for block in pairs.in_blocks(split):
            in_test = pc.equal(block.column("split"), TEST).to_numpy(zero_copy_only=False)
            yield block.filter(pa.array(in_test | ~_touches(block, held))) if removed else block

    key = content_hash(pairs.hash, held.tobytes()) if removed else pairs.hash
    return PairView(pairs.source_language, pairs.languages, key, counts, in_blocks)


def equal_shares(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of `total` pairs to take of each language: equal shares, where small languages leave the rest to larger ones.

    From the smallest to the largest: min(size, rest of the total / number of languages that are left), rounded down.
    """
    shares: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        shares[name] = min(sizes[name], (total - sum(shares.values())) // (len(sizes) - len(shares)))
    return shares


def draw(pairs: PairSource, count: int, held: Hashes, seed: int, on_progress: OnProgress = silent) -> PairView | None:
    """A random sample of up to `count` training pairs, the same number of each language; None if there are none.

    Source text without translations and pairs with text in `held` are left out.
    """
    languages = [language for language in pairs.languages if language != pairs.source_language]
    codes = [np.zeros(0, dtype=np.int16)]
    for block in pairs.in_blocks(TRAIN):
        code = pc.index_in(block.column("language"), pa.array(languages, pa.string())).fill_null(-1).to_numpy()
        codes.append(np.where(_touches(block, held), -1, code).astype(np.int16))
    language_of = np.concatenate(codes)
    sizes = {language: int((language_of == number).sum()) for number, language in enumerate(languages)}
    shares = {language: share for language, share in equal_shares(sizes, count).items() if share}
    if not shares:
        return None
    chosen = np.zeros(len(language_of), dtype=np.bool_)
    for language, share in shares.items():
        random = np.random.default_rng([seed, int(content_hash(language)[:8], 16)])  # independent of the other languages
        chosen[random.choice(np.flatnonzero(language_of == languages.index(language)), share, replace=False)] = True
    on_progress(Step("replay", int(chosen.sum()), int(chosen.sum()), "pairs"))

    def in_blocks(split: str | None = None) -> Iterator[pa.Table]:
        start = 0
        for block in pairs.in_blocks(TRAIN) if split in (None, TRAIN) else ():
            yield block.filter(pa.array(chosen[start : start + block.num_rows]))
            start += block.num_rows

    key = content_hash(pairs.hash, held.tobytes(), str(count), str(seed))
    counts = PairCounts.of(pa.concat_tables(block.select(["corpus", "language", "split"]) for block in in_blocks()))
    return PairView(pairs.source_language, tuple(sorted(shares)), key, counts, in_blocks)

"""Keep a random part of the training pairs: at most so many per language, and per corpus and language.

    order of a pair = (hash of its source and the seed, hash of its target)

The pairs that come first in this order are kept. It depends only on the text and the seed, so the same pairs are kept whatever
else is read, in which order, and after an interruption; and a higher limit keeps these pairs and more. Languages keep the same
source sentences as far as they have them, so a teacher has few sentences to embed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isogloss.corpora.text.hashing import Hashes, combine
from isogloss.types import IntArray

PER_CORPUS, PER_LANGUAGE = "over the limit per corpus", "over the limit per language"
WAITING = 1 << 16  # pairs that are collected, at least, before they are sorted

ORDERED = np.dtype([("source", "<u8"), ("target", "<u8"), ("row", "<i8")])  # compared in this order


@dataclass(frozen=True, slots=True)
class PairLimits:
    """The most training pairs to keep; 0 keeps all."""

    per_language: int = 0
    per_corpus: int = 0  # in each language
    seed: int = 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """What pairs are dropped for, in the order it happens."""
        return tuple(name for name, most in ((PER_CORPUS, self.per_corpus), (PER_LANGUAGE, self.per_language)) if most)


NO_LIMITS = PairLimits()


def beyond(batches: Iterable[tuple[IntArray, Hashes, Hashes]], most: int, seed: int) -> IntArray:
    """The rows after the first `most` in the order above. A batch has rows, and hashes of their sources and targets.

    Equal pairs are ordered by their rows. While batches come, the hashes of at most 2 · `most` rows, or of a few batches, are
    in memory.
    """
    first, waiting, dropped = np.zeros(0, ORDERED), list[NDArray[np.void]](), list[IntArray]()
    for rows, sources, targets in batches:
        batch = np.empty(len(rows), ORDERED)
        batch["source"] = combine(sources, np.full(len(rows), seed, np.uint64))
        batch["target"], batch["row"] = targets, rows
        if len(first) == most:  # a look at the last of them spares most rows the sorting
            late = batch["source"] > first["source"][-1]
            dropped.append(batch["row"][late])
            batch = batch[~late]
        waiting.append(batch)
        if sum(map(len, waiting)) > max(most, WAITING):
            first, rest = _split(first, waiting, most)
            waiting = []
            dropped.append(rest)
    dropped.append(_split(first, waiting, most)[1])
    return np.concatenate(dropped)


def _split(first: NDArray[np.void], waiting: list[NDArray[np.void]], most: int) -> tuple[NDArray[np.void], IntArray]:
    """The first `most` of all in order, and the rows of the others."""
    every = np.concatenate([first, *waiting])
    order = np.lexsort((every["row"], every["target"], every["source"]))
    return every[order[:most]], every["row"][order[most:]].astype(np.int64)

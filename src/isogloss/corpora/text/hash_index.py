"""A hash table from 64-bit hashes to positions, with lookups for a whole block at once (open addressing).

A Python dictionary would need an object for every word of a block.
"""

import numpy as np

from isogloss.corpora.text.hashing import Hashes
from isogloss.types import IntArray

SLOTS_PER_KEY = 2  # so that chains stay short


class HashIndex:
    """Gives each hash a position: 0, 1, 2 … in the order they were added."""

    def __init__(self, room: int) -> None:
        self.room = room
        slots = 1 << max(4, (SLOTS_PER_KEY * room - 1).bit_length())
        self._mask = np.uint64(slots - 1)
        self._hashes = np.zeros(slots, dtype=np.uint64)
        self._positions = np.full(slots, -1, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        """Number of hashes."""
        return self._count

    def clear(self) -> None:
        """Remove all hashes."""
        self._positions[:] = -1
        self._count = 0

    def find(self, hashes: Hashes) -> IntArray:
        """The position of each hash; -1 if it is not in the index."""
        found = np.full(len(hashes), -1, dtype=np.int64)
        pending = np.arange(len(hashes))
        slots = (hashes & self._mask).astype(np.int64)
        while len(pending):
            here = self._positions[slots]
            same = (self._hashes[slots] == hashes[pending]) & (here >= 0)
            found[pending[same]] = here[same]
            on = ~same & (here >= 0)
            pending, slots = pending[on], (slots[on] + 1) & int(self._mask)
        return found

    def add(self, hashes: Hashes) -> IntArray:
        """Add hashes that are all new and distinct, and return their positions."""
        if self._count + len(hashes) > self.room:
            raise ValueError("the table is full")
        positions = np.arange(self._count, self._count + len(hashes), dtype=np.int64)
        waiting = np.arange(len(hashes))
        slots = (hashes & self._mask).astype(np.int64)
        while len(waiting):
            free = self._positions[slots] < 0
            # Of several that want the same free slot, the last write wins.
            self._positions[slots[free]] = positions[waiting[free]]
            won = free & (self._positions[slots] == positions[waiting])
            self._hashes[slots[won]] = hashes[waiting[won]]
            waiting, slots = waiting[~won], (slots[~won] + 1) & int(self._mask)
        self._count += len(hashes)
        return positions

"""Where things named by 64-bit hashes are kept: a hash table that is asked for a whole block at once.

A Python dictionary would need an object for every word of a block. Here a block of names is looked up in a few array steps:
every name looks at its slot, those whose slot has another name look at the next one, until all have found theirs or a gap.
"""

import numpy as np

from isogloss.corpora.text.hashing import Hashes
from isogloss.types import IntArray

LOAD = 2  # slots for each thing there is room for: chains stay short


class HashIndex:
    """Gives each name a place, 0, 1, 2 …, in the order they were added."""

    def __init__(self, room: int) -> None:
        self.room = room
        slots = 1 << max(4, (LOAD * room - 1).bit_length())
        self._mask = np.uint64(slots - 1)
        self._names = np.zeros(slots, dtype=np.uint64)
        self._places = np.full(slots, -1, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        """How many names there are."""
        return self._count

    def clear(self) -> None:
        """Forget all names; the room stays."""
        self._places[:] = -1
        self._count = 0

    def find(self, names: Hashes) -> IntArray:
        """The place of each name; -1 for those that are not there."""
        found = np.full(len(names), -1, dtype=np.int64)
        asking = np.arange(len(names))
        slots = (names & self._mask).astype(np.int64)
        while len(asking):
            here = self._places[slots]
            same = (self._names[slots] == names[asking]) & (here >= 0)
            found[asking[same]] = here[same]
            on = ~same & (here >= 0)
            asking, slots = asking[on], (slots[on] + 1) & int(self._mask)
        return found

    def add(self, names: Hashes) -> IntArray:
        """Give places to names that are all new and all different."""
        if self._count + len(names) > self.room:
            raise ValueError("the table is full")
        places = np.arange(self._count, self._count + len(names), dtype=np.int64)
        waiting = np.arange(len(names))
        slots = (names & self._mask).astype(np.int64)
        while len(waiting):
            free = self._places[slots] < 0
            # Of several that want one free slot, whoever wrote last has it: look who that was.
            self._places[slots[free]] = places[waiting[free]]
            won = free & (self._places[slots] == places[waiting])
            self._names[slots[won]] = names[waiting[won]]
            waiting, slots = waiting[~won], (slots[~won] + 1) & int(self._mask)
        self._count += len(names)
        return places

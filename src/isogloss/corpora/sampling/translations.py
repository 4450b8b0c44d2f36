"""Which translations of a source an epoch leaves out, if `balance.max_translations` limits them.

The bridge counts all translations of a sentence together once. In training every pair counts, so a few sentences with many
translations outweigh many sentences without: the student learns the few by heart.
"""

import numpy as np

from isogloss.corpora.text.hashing import GOLDEN, scrambled
from isogloss.types import IntArray


def surplus(source: IntArray, most: int, seed: int) -> IntArray:
    """The numbers of the pairs beyond `most` of their source, ascending; a hash chooses which ones of a source stay."""
    numbers = np.arange(len(source), dtype=np.uint64) + np.uint64(seed)
    order = np.lexsort((scrambled(numbers * GOLDEN), source))
    ordered = np.asarray(source)[order]
    place = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    found: IntArray = np.sort(order[place >= most])
    return found

"""Near duplicates by MinHash (Broder 1997): the signatures of two pairs agree as much as their word triples do.

A signature has the minimum of each of 64 hash functions over the word triples of a pair, two bytes of each. The share of equal
numbers estimates the share of common triples; bands of four numbers find candidates.
"""

import numpy as np
from numpy.typing import NDArray

from isogloss.corpora.text.arrays import begins_run
from isogloss.corpora.text.hashing import GOLDEN, Hashes, combine, mix
from isogloss.corpora.text.side import Side

HASHES, BAND = 64, 4
BANDS = HASHES // BAND
TRIPLE = 3

Signatures = NDArray[np.uint16]


def signatures(source: Side, target: Side) -> Signatures:
    """The signature of each pair, over the words of both sides."""
    hashes, owners = [], []
    for number, side in enumerate((source, target)):
        words, owner = _triples(side)
        hashes.append(mix(words + np.uint64(number)))
        owners.append(owner)
    every, owner = np.concatenate(hashes), np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    every, owner = every[order], owner[order]
    result = np.zeros((len(source), HASHES), dtype=np.uint16)
    first = np.flatnonzero(begins_run(owner))
    present = owner[first]
    random = np.random.default_rng(20210707)
    for place in range(HASHES):
        factor = np.uint64(int(random.integers(1, 2**63)) * 2 + 1)
        least = np.minimum.reduceat(mix(every * factor), first)
        result[present, place] = (least >> np.uint64(48)).astype(np.uint16)
    return result


def _triples(side: Side) -> tuple[Hashes, NDArray[np.int64]]:
    """The hash of every three consecutive words; of all words if a text has fewer."""
    words, owner, _ = side.tokens
    nothing = np.zeros(1, dtype=np.uint64)
    padded, padded_owner = np.concatenate([words, nothing, nothing]), np.concatenate([owner, [-1, -1]])
    # A window that runs into the next text is cut: missing words count as 0.
    parts = [np.where(padded_owner[k : k + len(words)] == owner, padded[k : k + len(words)], 0) for k in range(TRIPLE)]
    whole = padded_owner[TRIPLE - 1 : TRIPLE - 1 + len(words)] == owner
    used = whole | begins_run(owner)
    return combine(*(part[used] for part in parts)), owner[used]


def bands(signature: Signatures) -> Hashes:
    """The hash of each band of each signature (rows × bands); pairs that share one are candidates."""
    wide = np.ascontiguousarray(signature).reshape(-1, BANDS, BAND).view(np.uint64)[..., 0]
    return mix(wide + np.arange(BANDS, dtype=np.uint64) * GOLDEN)


def likeness(one: Signatures, other: Signatures) -> NDArray[np.float64]:
    """The estimated share of common triples, row by row."""
    share: NDArray[np.float64] = (one == other).mean(1)
    return share

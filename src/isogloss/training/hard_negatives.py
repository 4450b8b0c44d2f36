"""Hard negatives: for each pair, wrong translations that are near its source (mUSE, Yang et al. 2020).

They are mined with the current student, among translations of the same language, without texts that translate the source in
any pair. Large languages are mined in samples, which bounds the size of the similarity matrix.
"""

from collections.abc import Callable

import numpy as np

from isogloss.search.neighbors import neighbors
from isogloss.training.batches import PairRows
from isogloss.types import FloatArray, IntArray

AT_ONCE = 100_000  # pairs of a language that are searched against each other


def mine_negatives(pairs: PairRows, vectors_of: Callable[[IntArray], FloatArray], wanted: int, seed: int) -> IntArray:
    """For every pair the numbers of `wanted` other pairs whose translations are near and wrong (pairs × wanted).

    A language with too few pairs repeats some; if none is wrong, it is a pair of the same source, which `ranking` skips.
    """
    found = np.empty((len(pairs), wanted), dtype=np.int64)
    random = np.random.default_rng(seed)
    order = np.argsort(pairs.source, kind="stable")
    known = pairs.source[order], pairs.target[order]
    for language in np.unique(pairs.language):
        members = random.permutation(np.flatnonzero(pairs.language == language))
        pieces = max(1, -(-len(members) // AT_ONCE))
        for part in np.array_split(members, pieces):
            found[part] = part[_mine(pairs.where(part), known, vectors_of, wanted)]
    return found


def _mine(
    pairs: PairRows, known: tuple[IntArray, IntArray], vectors_of: Callable[[IntArray], FloatArray], wanted: int
) -> IntArray:
    """The same within one sample; `known` are the sources and targets of all pairs, in order of the sources."""
    targets, pair_of = np.unique(pairs.target, return_index=True)
    sources, own_pair, source_of = np.unique(pairs.source, return_index=True, return_inverse=True)
    begins, ends = (np.searchsorted(known[0], sources, side) for side in ("left", "right"))
    reach = min(wanted + int((ends - begins).max()) + 1, len(targets))
    near = np.empty((len(sources), wanted), dtype=np.int64)
    for place, row in enumerate(neighbors(vectors_of(sources), vectors_of(targets), reach).ids):
        rights = np.append(known[1][begins[place] : ends[place]], sources[place])  # nor the source itself
        wrong = row[~np.isin(targets[row], rights)]
        near[place] = pair_of[np.resize(wrong, wanted)] if len(wrong) else own_pair[place]
    return near[source_of]

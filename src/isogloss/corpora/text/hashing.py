"""64-bit hashes of all texts of a block.

A hash is the sum over characters of the character times a random factor of its position, modulo 2^64, mixed with the length
(multilinear hashing). Two texts collide with a probability of about 2^-60: among ten million pairs, any two do with a
probability of about 1 in 20,000.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from isogloss.corpora.text.arrays import begins_run
from isogloss.types import BoolArray, IntArray

Hashes = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: its multiples are far apart
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(values: Hashes) -> Hashes:
    """Mix the bits of 64-bit numbers: one step of splitmix64."""
    return scrambled(values + GOLDEN)


def scrambled(values: Hashes) -> Hashes:
    """The finalizer of splitmix64, a bijection; 0 stays 0."""
    shifted = values >> np.uint64(30)
    mixed = values ^ shifted
    mixed *= _FIRST
    mixed ^= np.right_shift(mixed, np.uint64(27), out=shifted)
    mixed *= _SECOND
    mixed ^= np.right_shift(mixed, np.uint64(31), out=shifted)
    return mixed


@cache
def _factors(bits: int) -> Hashes:
    """A fixed odd random factor for each of the first 2^bits positions."""
    return mix(np.arange(2**bits, dtype=np.uint64)) | np.uint64(1)


def hash_texts(codes: NDArray[np.uint32], starts: IntArray) -> Hashes:
    """The hash of each text codes[starts[i]:starts[i + 1]]; texts may be empty."""
    lengths = np.diff(starts)
    place = np.arange(len(codes), dtype=np.int64)
    place -= np.repeat(starts[:-1], lengths)
    products = _factors(max(12, int(lengths.max(initial=0)).bit_length())).take(place)
    products *= codes
    running = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(products, out=running[1:])
    return mix(np.diff(running.take(starts)) + mix(lengths.astype(np.uint64)))


def combine(*columns: Hashes) -> Hashes:
    """One hash for several columns; their order matters."""
    result = np.full(len(columns[0]), len(columns), dtype=np.uint64)
    for column in columns:
        result = mix((result * _FIRST) ^ column)
    return result


def distinct(hashes: Hashes) -> Hashes:
    """Sorted distinct hashes; several times faster than `np.unique` for millions."""
    ordered = np.sort(hashes)
    return ordered[begins_run(ordered)]


def among(hashes: Hashes, known: Hashes) -> BoolArray:
    """Which hashes are in the sorted array `known`."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.bool_)
    place = np.searchsorted(known, hashes)
    place[place == len(known)] = 0
    found: BoolArray = known[place] == hashes
    return found

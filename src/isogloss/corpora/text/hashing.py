"""64-bit names for texts, computed for a whole block at once.

A text's name is the sum over its characters of the character times a random number of its place, modulo 2^64, mixed with
its length (multilinear hashing): a few passes over a block, and no Python loop. Two different texts share a name with a
probability of about 2^-60: among ten million pairs the chance that any two do is about one in twenty thousand.
"""

import numpy as np
from numpy.typing import NDArray

from isogloss.types import BoolArray, IntArray

Hashes = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiples of it lie far apart
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(values: Hashes) -> Hashes:
    """Spread every bit of a 64-bit number over all of it: a step of splitmix64."""
    return scrambled(values + GOLDEN)


def scrambled(values: Hashes) -> Hashes:
    """The finaliser of splitmix64, one number to one number; 0 stays 0."""
    shifted = values >> np.uint64(30)
    mixed = values ^ shifted
    mixed *= _FIRST
    mixed ^= np.right_shift(mixed, np.uint64(27), out=shifted)
    mixed *= _SECOND
    mixed ^= np.right_shift(mixed, np.uint64(31), out=shifted)
    return mixed


_factors = np.zeros(0, dtype=np.uint64)


def _factors_for(length: int) -> Hashes:
    """A fixed odd random factor for every place in a text, for as many places as are needed."""
    global _factors
    if len(_factors) < length:
        _factors = mix(np.arange(max(2 * length, 4096), dtype=np.uint64)) | np.uint64(1)
    return _factors


def hash_texts(codes: NDArray[np.uint32], starts: IntArray) -> Hashes:
    """The name of each text codes[starts[i]:starts[i + 1]]; texts may be empty."""
    lengths = np.diff(starts)
    place = np.arange(len(codes), dtype=np.int64)
    place -= np.repeat(starts[:-1], lengths)
    products = _factors_for(int(lengths.max(initial=0))).take(place)
    products *= codes
    running = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(products, out=running[1:])
    return mix(np.diff(running.take(starts)) + mix(lengths.astype(np.uint64)))


def combine(*columns: Hashes) -> Hashes:
    """One name for several, in order: ("a", "b") is not ("b", "a")."""
    result = np.full(len(columns[0]), len(columns), dtype=np.uint64)
    for column in columns:
        result = mix((result * _FIRST) ^ column)
    return result


def distinct(hashes: Hashes) -> Hashes:
    """Each hash once, sorted; numpy's own `unique` is several times slower on millions of numbers."""
    ordered = np.sort(hashes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def among(hashes: Hashes, known: Hashes) -> BoolArray:
    """Which hashes are in `known`, which is sorted."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.bool_)
    place = np.searchsorted(known, hashes)
    place[place == len(known)] = 0
    found: BoolArray = known[place] == hashes
    return found

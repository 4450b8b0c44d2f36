"""64-bit names for texts, computed for a whole block at once.

A text's name is the sum over its characters of a well-mixed number made from the character and its place. Sums are taken
modulo 2^64, so a block needs one pass and no Python loop. Two different texts share a name with probability about 2^-64:
among ten million pairs the chance that any two do is about three in a million.
"""

import numpy as np
from numpy.typing import NDArray

from isogloss.types import BoolArray, IntArray

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(values: Hashes) -> Hashes:
    """Spread every bit of a 64-bit number over all of it (the finaliser of splitmix64)."""
    mixed = values + _GOLDEN
    shifted = mixed >> np.uint64(30)
    mixed ^= shifted
    mixed *= _FIRST
    mixed ^= np.right_shift(mixed, np.uint64(27), out=shifted)
    mixed *= _SECOND
    mixed ^= np.right_shift(mixed, np.uint64(31), out=shifted)
    return mixed


def _stir(values: Hashes) -> Hashes:
    """Half of `mix`, in place: enough for numbers that are added up and mixed once more."""
    values *= _FIRST
    values ^= values >> np.uint64(32)
    values *= _SECOND
    values ^= values >> np.uint64(29)
    return values


def hash_texts(codes: NDArray[np.uint32], starts: IntArray) -> Hashes:
    """The name of each text codes[starts[i]:starts[i + 1]]; texts may be empty."""
    lengths = np.diff(starts)
    place = np.arange(len(codes), dtype=np.uint64)
    place -= np.repeat(starts[:-1].astype(np.uint64), lengths)
    place <<= np.uint64(32)
    place |= codes
    running = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_stir(place), out=running[1:])
    return mix(np.diff(running.take(starts)) + lengths.astype(np.uint64))


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

"""Properties of Unicode characters as arrays indexed by code point: script, digit value, lower case.

Built once per process from Python's character database.
"""

import sys
import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from isogloss.types import BoolArray

LIMIT = sys.maxunicode + 1
LISTED = 0x34000  # no letters are assigned beyond this
VARIATION_SELECTORS = slice(0xE0100, 0xE01F0)  # category: marks
NO_DIGIT = 255

# Blocks of 128 code points from U+0900 on.
_BLOCKS = ("Deva", "Beng", "Guru", "Gujr", "Orya", "Taml", "Telu", "Knda", "Mlym", "Sinh", "Thai", "Laoo")
# Ranges of code points by script (ISO 15924; Kana has hiragana, too). Only letters and their marks are counted; letters outside
# of the ranges are "other".
SCRIPT_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Latn": ((0x41, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0xFF21, 0xFF5A)),
    "Grek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrl": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x1D2B, 0x1D2B), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armn": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebr": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arab": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFE)),
    "Syrc": ((0x700, 0x74F), (0x860, 0x86F)),
    "Thaa": ((0x780, 0x7BF),),
    "Nkoo": ((0x7C0, 0x7FF),),
    **{script: ((0x900 + 0x80 * number, 0x97F + 0x80 * number),) for number, script in enumerate(_BLOCKS)},
    "Tibt": ((0xF00, 0xFFF),),
    "Mymr": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Geor": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Ethi": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Cher": ((0x13A0, 0x13FF), (0xAB70, 0xABBF)),
    "Khmr": ((0x1780, 0x17FF), (0x19E0, 0x19FF)),
    "Mong": ((0x1800, 0x18AF),),
    "Olck": ((0x1C50, 0x1C7F),),
    "Tfng": ((0x2D30, 0x2D7F),),
    "Hang": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC)),
    "Kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F)),
    "Hani": ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
    "Bopo": ((0x3100, 0x312F), (0x31A0, 0x31BF)),
}
SCRIPT_RANGES["Deva"] += ((0xA8E0, 0xA8FF),)
SCRIPTS = ("", "other", *SCRIPT_RANGES)  # a script's number is its index; 0 is no script
SCRIPT_NUMBER = {name: number for number, name in enumerate(SCRIPTS)}
UNSPACED = ("Hani", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")  # written without spaces between words


@cache
def wordlike() -> BoolArray:
    """True for letters, digits and marks of letters: the characters of words."""
    table = np.zeros(LIMIT, dtype=np.bool_)
    table[:LISTED] = [chr(code).isalnum() or unicodedata.category(chr(code)) in ("Mn", "Mc") for code in range(LISTED)]
    table[VARIATION_SELECTORS] = True
    return table


@cache
def scripts() -> NDArray[np.uint8]:
    """The script number of every letter and mark, 0 for other characters."""
    table = np.zeros(LIMIT, dtype=np.uint8)
    known = wordlike() & (digits() == NO_DIGIT)
    for name, ranges in SCRIPT_RANGES.items():
        for first, last in ranges:
            span = slice(first, last + 1)
            table[span] = np.where(known[span], SCRIPT_NUMBER[name], 0)
    letters = np.array([chr(code).isalpha() for code in range(LISTED)])
    table[:LISTED][letters & (table[:LISTED] == 0)] = SCRIPT_NUMBER["other"]
    return table


@cache
def script_table(names: tuple[str, ...]) -> BoolArray:
    """True for the numbers of these scripts."""
    table = np.zeros(256, dtype=np.bool_)
    table[[SCRIPT_NUMBER[name] for name in names]] = True
    return table


@cache
def unspaced() -> BoolArray:
    """True for letters of scripts that are written without spaces between words."""
    return script_table(UNSPACED).take(scripts())


@cache
def digits() -> NDArray[np.uint8]:
    """0 to 9 for a decimal digit of any script, NO_DIGIT for everything else."""
    table = np.full(LIMIT, NO_DIGIT, dtype=np.uint8)
    table[:LISTED] = [unicodedata.decimal(chr(code), NO_DIGIT) for code in range(LISTED)]
    return table


@cache
def lower_case() -> NDArray[np.uint32]:
    """The lower case of each character if that is one character; ς counts as σ."""
    table = np.arange(LIMIT, dtype=np.uint32)
    everything = "".join(map(chr, range(LISTED))).replace("İ", "i")  # its lower case is two characters
    lowered = np.frombuffer(everything.lower().encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table[:LISTED] = lowered
    table[ord("ς")] = ord("σ")
    return table

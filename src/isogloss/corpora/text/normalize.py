"""Normal forms of text.

    nfc       composed characters, no control characters, single spaces; looks the same (default)
    nfkc      also folds compatibility characters: ﬁ → fi, Ａ → A, ① → 1
    ham-kim   nfkc, and one symbol each for double quotes, single quotes, hyphens and dashes (Ham & Kim 2021, §5)

`normalize` is the definition for one text. `normalize_block` does the same for a block, but calls it only for texts with
characters that could change.
"""

import re
import unicodedata
from functools import cache

import numpy as np
import pyarrow as pa

from isogloss.corpora.text import characters
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray

FORMS = ("nfc", "nfkc", "ham-kim")
# Invisible characters; joiners stay, because Persian and emoji need them.
_UNSEEN = r"\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
UNSEEN = re.compile(f"[{_UNSEEN}]+")
SPACE_OR_CONTROL = re.compile(rf"[\s\x00-\x1f\x7f-\x9f\ufffe\uffff{_UNSEEN}]+")

DOUBLE_QUOTES = "“”„‟«»〝〞〟＂❝❞⹂"
SINGLE_QUOTES = "‘’‚‛‹›＇❛❜`´ʼ′"
HYPHENS = "‐‑‒⁃﹣－−"
DASHES = "—―–﹘─"
_FOLDED = str.maketrans(
    {character: '"' for character in DOUBLE_QUOTES}
    | {character: "'" for character in SINGLE_QUOTES}
    | {character: "-" for character in HYPHENS}
    | {character: "–" for character in DASHES}
)


def normalize(text: str, form: str = "nfc") -> str:
    """Normalize one text; idempotent."""
    if form == "ham-kim":
        # Fold first: NFKC would turn ´ into a space and an accent.
        text = unicodedata.normalize("NFKC", text.translate(_FOLDED)).translate(_FOLDED)
    else:
        text = unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)
    # Invisible characters are removed ("co\u00adoperate" is one word), controls become a space.
    text = SPACE_OR_CONTROL.sub(" ", UNSEEN.sub("", text)).strip()
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)


def normalize_block(texts: pa.Array, form: str = "nfc") -> pa.Array:
    """Normalize a block."""
    side = Side(texts, "")
    suspect = side.count(_suspects(form).take(side.codes)) > 0
    spaces = side.codes == 32
    doubled = np.zeros(len(spaces), dtype=np.bool_)
    doubled[1:] = spaces[1:] & spaces[:-1]  # edges of texts are checked below
    suspect |= side.count(doubled) > 0
    filled = side.lengths > 0
    first, last = side.starts[:-1][filled], side.starts[1:][filled] - 1
    suspect[filled] |= spaces[first] | spaces[last]
    if not suspect.any():
        return side.texts
    rows = np.flatnonzero(suspect)
    before = side.texts.take(pa.array(rows)).to_pylist()
    after = [normalize(text, form) for text in before]
    if before == after:
        return side.texts
    place = np.arange(len(side))
    place[rows] = len(side) + np.arange(len(rows))
    return pa.concat_arrays([side.texts, pa.array(after, pa.string())]).take(pa.array(place))


@cache
def _suspects(form: str) -> BoolArray:
    """True for every character that normalization could change or remove."""
    table = characters.changes_under("NFC" if form == "nfc" else "NFKC").copy()
    everything = "".join(map(chr, range(0x10000)))
    for found in SPACE_OR_CONTROL.finditer(everything):
        table[found.start() : found.end()] = True
    table[32] = False  # single spaces are fine
    if form == "ham-kim":
        table[[ord(character) for character in DOUBLE_QUOTES + SINGLE_QUOTES + HYPHENS + DASHES]] = True
    return table

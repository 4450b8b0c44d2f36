"""Normal forms of text.

    nfc       composed characters, no control characters, single spaces; looks the same (default)
    nfkc      also folds compatibility characters: ﬁ → fi, Ａ → A, ① → 1
    ham-kim   nfkc, and one symbol each for double quotes, single quotes, hyphens and dashes (Ham & Kim 2021, §5)

`normalize` is the definition for one text; `normalize_block` does the same for a block and is faster.
"""

import re
import unicodedata
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FORMS = ("nfc", "nfkc", "ham-kim")
# Invisible characters; joiners stay, because Persian and emoji need them.
_UNSEEN = "\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_SPACES = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # beside the ordinary one
_CONTROLS = "\x00-\x1f\x7f-\x9f\ufffe\uffff"
UNSEEN = re.compile(f"[{_UNSEEN}]+")
SPACE_OR_CONTROL = re.compile(f"[ {_SPACES}{_CONTROLS}]+")

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
    unicode_form = _unicode_form(form)
    if form == "ham-kim":
        # Fold first: NFKC would turn ´ into a space and an accent.
        text = unicodedata.normalize(unicode_form, text.translate(_FOLDED)).translate(_FOLDED)
    else:
        text = unicodedata.normalize(unicode_form, text)
    # Invisible characters are removed ("co\u00adoperate" is one word), controls become a space.
    text = SPACE_OR_CONTROL.sub(" ", UNSEEN.sub("", text)).strip(" ")
    return unicodedata.normalize(unicode_form, text)


def normalize_block(texts: pa.Array, form: str = "nfc") -> pa.Array:
    """Normalize a block."""
    folded = DOUBLE_QUOTES + SINGLE_QUOTES + HYPHENS + DASHES if form == "ham-kim" else ""
    odd = pc.match_substring_regex(texts, f"^ |  | $|[{_UNSEEN}{_SPACES}{_CONTROLS}{folded}]")
    is_normalized = partial(unicodedata.is_normalized, _unicode_form(form))
    before = texts.to_pylist()
    after = [
        normalize(text, form) if changes or not is_normalized(text) else text
        for text, changes in zip(before, np.asarray(odd).tolist(), strict=True)
    ]
    return texts if after == before else pa.array(after, pa.string())


def _unicode_form(form: str) -> Literal["NFC", "NFKC"]:
    return "NFC" if form == "nfc" else "NFKC"

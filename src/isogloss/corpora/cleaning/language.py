"""Rules about the language of a side: by its script, and by language identification."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.corpora.text import characters
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.side import Side
from isogloss.corpora.text.words import split_words
from isogloss.types import BoolArray, FloatArray

# The scripts of languages. Sides in a language that is not listed are accepted.
_SCRIPTS = {
    ("cyrillic",): "ab ba be bg ce cv kk ky mk mn mhr myv os ru sah tg tt udm uk",
    ("cyrillic", "latin"): "az cnr crh sh sr tk uz",
    ("arabic",): "ar arz ckb fa ps sd ug ur azb pnb",
    ("arabic", "latin"): "ku",
    ("hebrew",): "he yi",
    ("greek",): "el",
    ("armenian",): "hy",
    ("georgian",): "ka xmf",
    ("ethiopic",): "am ti",
    ("devanagari",): "hi mr ne sa bho mai",
    ("bengali",): "as bn",
    ("gurmukhi",): "pa",
    ("gujarati",): "gu",
    ("oriya",): "or",
    ("tamil",): "ta",
    ("telugu",): "te",
    ("kannada",): "kn",
    ("malayalam",): "ml",
    ("sinhala",): "si",
    ("thai",): "th",
    ("lao",): "lo",
    ("tibetan",): "bo dz",
    ("myanmar",): "my",
    ("khmer",): "km",
    ("thaana",): "dv",
    ("hangul", "han"): "ko",
    ("han", "kana"): "ja",
    ("han", "bopomofo"): "zh yue wuu lzh",
    ("latin",): "af an ast br bs ca ceb co cs cy da de en eo es et eu fi fil fo fr fy ga gd gl gsw ha hr hsb ht hu ia id ie"
    " ig io is it jv kab lb li lt lv mg mi ms mt nb nds nl nn no oc pl pt qu rn ro rw sc sk sl sm sn so sq st su sv"
    " sw tl tn to tr vi vo wa war wo xh yo zu",
}
SUBTAGS = {
    "Latn": ("latin",),
    "Cyrl": ("cyrillic",),
    "Arab": ("arabic",),
    "Deva": ("devanagari",),
    "Mong": ("mongolian",),
    "Hant": ("han", "bopomofo"),
    "Hans": ("han", "bopomofo"),
}
SECOND_SCRIPTS = {"Latn", "Cyrl", "Arab", "Deva", "Mong"}  # language identification was trained on the usual script
SCRIPTS_OF = {language: scripts for scripts, languages in _SCRIPTS.items() for language in languages.split()}


def scripts_of(language: str) -> tuple[str, ...] | None:
    """The scripts a language is written in, None where it is not listed; `sr-Latn` names its own."""
    base, *rest = language.split("-")
    if named := SUBTAGS.keys() & set(rest):
        return SUBTAGS[named.pop()]
    return None if any(len(part) == 4 for part in rest) else SCRIPTS_OF.get(base)


@dataclass(frozen=True, slots=True)
class Script(Rule):
    """Drop pairs with a side that is not written in a script of its language."""

    name: ClassVar[str] = "wrong script"
    threshold: ClassVar[str] = "min_share"
    order: ClassVar[int] = 70
    setting: ClassVar[str] = "min_script"
    off: ClassVar[float | None] = 0
    auto: ClassVar[str] = "valley"

    min_share: float

    def score(self, pairs: PairBatch) -> FloatArray:
        """The share of letters in the language's scripts; of the worse side."""
        return self.worse(_share(pairs.source), _share(pairs.target))


def _share(side: Side) -> FloatArray:
    scripts = scripts_of(side.language)
    if scripts is None:
        return np.ones(len(side), dtype=np.float32)
    letters = side.count(side.scripts > 0)
    own = side.count(_own(scripts).take(side.scripts))
    return np.where(letters == 0, 1.0, own / np.maximum(letters, 1)).astype(np.float32)


@cache
def _own(scripts: tuple[str, ...]) -> BoolArray:
    table = np.zeros(256, dtype=np.bool_)
    table[[characters.SCRIPT_NUMBER[name] for name in scripts]] = True
    return table


@dataclass(frozen=True, slots=True)
class Language(Rule):
    """Drop pairs with a side that language identification assigns to another language.

    Short text is accepted (a model that sees twelve letters guesses), and so are languages the model does not know.
    """

    name: ClassVar[str] = "wrong language"
    threshold: ClassVar[str] = "minimum"
    order: ClassVar[int] = 110
    setting: ClassVar[str] = "min_language"
    off: ClassVar[float | None] = 0
    for_sentences: ClassVar[bool] = True
    auto: ClassVar[str] = "valley"

    minimum: float
    min_letters: int = 16  # a character of an unspaced script counts as two

    def score(self, pairs: PairBatch) -> FloatArray:
        """1 minus the lead of the most probable other language; of the worse side."""
        return self.worse(self._side(pairs.source), self._side(pairs.target))

    def _side(self, side: Side) -> FloatArray:
        model = language_model()
        if not model.knows(side.language) or SECOND_SCRIPTS & set(side.language.split("-")):
            return np.ones(len(side), dtype=np.float32)
        long_enough = np.flatnonzero(np.diff(side.kept_starts) + side.count(side.alone) >= self.min_letters)
        score = np.ones(len(side), dtype=np.float32)
        if not len(long_enough):
            return score
        words = split_words(side.texts.take(pa.array(long_enough)))
        lead = model.lead(words, side.language)
        if side.language.split("-")[0] == "zh":  # some Chinese is taken for Japanese, which would have kana
            without_kana = (side.count(side.scripts == characters.SCRIPT_NUMBER["kana"]) == 0)[long_enough]
            lead = np.where(without_kana, model.lead(words, side.language, ("ja", "wuu")), lead)
        score[long_enough] = 1 - lead
        return score

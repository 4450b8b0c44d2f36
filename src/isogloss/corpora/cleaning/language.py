"""Rules about the language of a side: by its script, and by language identification."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.text import characters
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.side import Side
from isogloss.types import FloatArray

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

    name, threshold, order = "wrong script", "min_share", 70
    setting, off = "min_script", 0
    auto = "valley"

    min_share: float

    def score_side(self, side: Side) -> FloatArray:
        """The share of letters in the language's scripts."""
        scripts = scripts_of(side.language)
        if scripts is None:
            return np.ones(len(side), dtype=np.float32)
        letters = side.count(side.scripts > 0)
        own = side.count(characters.script_table(scripts).take(side.scripts))
        return np.where(letters == 0, 1.0, own / np.maximum(letters, 1)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Language(Rule):
    """Drop pairs with a side that language identification assigns to another language.

    Short text is accepted (a model that sees twelve letters guesses), and so are languages the model does not know.
    """

    name, threshold, order = "wrong language", "minimum", 110
    setting, off = "min_language", 0
    for_sentences = True
    auto = "valley"

    minimum: float
    min_letters: int = 16  # a character of an unspaced script counts as two

    def score_side(self, side: Side) -> FloatArray:
        """1 minus the lead of the most probable other language."""
        model = language_model()
        if not model.knows(side.language) or SECOND_SCRIPTS & set(side.language.split("-")):
            return np.ones(len(side), dtype=np.float32)
        long_enough = np.flatnonzero(np.diff(side.kept_starts) + side.count(side.alone) >= self.min_letters)
        score = np.ones(len(side), dtype=np.float32)
        if not len(long_enough):
            return score
        words = Side(side.texts.take(pa.array(long_enough)), side.language).words
        lead = model.lead(words, side.language)
        if side.language.split("-")[0] == "zh":  # some Chinese is taken for Japanese, which would have kana
            without_kana = (side.count(side.scripts == characters.SCRIPT_NUMBER["kana"]) == 0)[long_enough]
            lead = np.where(without_kana, model.lead(words, side.language, ("ja", "wuu")), lead)
        score[long_enough] = 1 - lead
        return score

"""Rules about the language of a side: by its script, and by language identification."""

from dataclasses import dataclass

import langcodes
import numpy as np
import pyarrow as pa

from isogloss.corpora.cleaning.rule import Rule
from isogloss.corpora.text import characters
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.side import Side
from isogloss.types import FloatArray

# Languages whose only writing system is the one that langcodes gives. Languages that are in neither list are not checked.
_ONE_SYSTEM = """
ab af am an ar arz as ast ba be bg bho bn bo br bs ca ce ceb ckb co cs cv cy da de dv dz el en eo es et eu fa fi fil fo fr fy ga
gd gl gsw gu ha he hi hr hsb ht hu hy ia id ie ig io is it ja jv ka kab kk km kn ko ky lb li lo lt lv lzh mai mg mhr mi mk ml mn
mr ms mt my myv nb nds ne nl nn no oc or os pa pl pnb ps pt qu rn ro ru rw sa sah sc sd si sk sl sm sn so sq st su sv sw ta te
tg th ti tl tn to tr tt udm ug uk ur vi vo wa war wo wuu xh xmf yi yo yue zh zu
"""
_SCRIPTS: dict[str, tuple[str, ...]] = {"azb": ("Arab",), "ku": ("Arab", "Latn")}
_SCRIPTS |= dict.fromkeys(("az", "cnr", "crh", "sh", "sr", "tk", "uz"), ("Cyrl", "Latn"))
_SCRIPTS_OF_SYSTEM = {"Jpan": ("Hani", "Kana"), "Kore": ("Hang", "Hani"), "Hans": ("Hani", "Bopo"), "Hant": ("Hani", "Bopo")}
SECOND_SCRIPTS = {"Latn", "Cyrl", "Arab", "Deva", "Mong"}  # language identification was trained on the usual script


def scripts_of(language: str) -> tuple[str, ...] | None:
    """The scripts a language is written in, None if they are not known; `sr-Latn` names its own."""
    base, *subtags = language.split("-")
    system = next((subtag for subtag in subtags if len(subtag) == 4), "")
    if not system and base in _SCRIPTS:
        return _SCRIPTS[base]
    if not system and base in _ONE_SYSTEM.split():
        system = langcodes.Language.get(base).maximize().script or ""
    return _SCRIPTS_OF_SYSTEM.get(system, (system,) if system in characters.SCRIPT_RANGES else None)


@dataclass(frozen=True, slots=True)
class Script(Rule):
    """Drop pairs with a side that is not written in a script of its language."""

    name, order = "wrong script", 70
    setting, off = "min_script", 0
    auto = "valley"

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

    name, order = "wrong language", 110
    setting, off = "min_language", 0
    for_sentences = True
    auto = "valley"

    min_letters: int = 16  # a character of an unspaced script counts as two

    def score_side(self, side: Side) -> FloatArray:
        """1 minus the lead of the most probable other language."""
        model = language_model()
        if not model.knows(side.language) or SECOND_SCRIPTS & set(side.language.split("-")):
            return np.ones(len(side), dtype=np.float32)
        long_enough = np.flatnonzero(np.diff(side.kept_starts) + side.count(side.alone) >= self.min_letters)
        score = np.ones(len(side), dtype=np.float32)
        words = Side(side.texts.take(pa.array(long_enough)), side.language).words
        lead = model.lead(words, side.language)
        if side.language.split("-")[0] == "zh":  # the model takes some Chinese for Japanese, which would have kana
            without_kana = (side.count(side.scripts == characters.SCRIPT_NUMBER["Kana"]) == 0)[long_enough]
            lead = np.where(without_kana, model.lead(words, side.language, ("ja", "wuu")), lead)
        score[long_enough] = 1 - lead
        return score

"""Tatoeba: find the English translations of up to 1,000 sentences per language, and the reverse.

Accuracy in both directions, as in LASER and the papers: by cosine, a sentence is right if it is on the same line, or has the
same text. (MTEB's Tatoeba is a weighted F1 in one direction.) `others` has the accuracy by ratio margin, and xsim, LASER's
error rate. The English sentences differ between languages, so compare models, not languages.

The groups are those of Feng et al. 2020 (LaBSE), also used by Ham & Kim 2021 (§6.3, table 3):

    14   the languages of mUSE: Ham & Kim §4
    36   XTREME's (Hu et al. 2020, appendix)
    82   those that LASER was trained on: the languages of its README that are in the test set
    112  all

LASER's README names 83 of the 112; the papers count 82 and print no list. The group has the 83, and the table says so.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isogloss.amounts import amount
from isogloss.evaluation.bootstrap import share
from isogloss.evaluation.compare import TaskScore, mean_of
from isogloss.evaluation.data.known_sets import TATOEBA
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.task import Task
from isogloss.mining.margin import best_by_margin
from isogloss.search.neighbors import both_ways
from isogloss.types import BoolArray, IntArray

MEASURE = "accuracy, both directions"
GROUP_TABLE = "Tatoeba, groups of languages"
DIRECTIONS = ("en → xx", "xx → en")
K = 4  # neighbors of the margin, as in LASER's xsim

_MUSE = "ara cmn deu fra ita jpn kor nld pol por rus spa tha tur"
_XTREME = """
afr ara ben bul cmn deu ell est eus fin fra heb hin hun ind ita jav jpn kat kaz kor mal mar nld pes por rus spa swh tam tel
tgl tha tur urd vie
"""
_NOT_IN_LASER = """
ang arq arz ast awa ceb cha csb cym dsb fao fry gla gsw hsb jav max mon nno nov orv pam pms swg tuk tzl war xho yid
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "14": tuple(_MUSE.split()),
    "36": tuple(_XTREME.split()),
    "82": tuple(code for code in TATOEBA if code not in _NOT_IN_LASER.split()),
    "112": TATOEBA,
}
LOW_RESOURCE = ("kat", "swh", "tgl", "tat")  # Reimers & Gurevych 2020, table 4


def tatoeba(table: str, sets: Sequence[EvaluationSet]) -> Task:
    """One accuracy per language, and one per group of the papers that is complete."""

    def measure(space: Space) -> list[TaskScore]:
        found = {one.subset: _accuracy(table, one, space) for one in sets}
        groups = [(name, codes) for name, codes in GROUPS.items() if set(codes) <= set(found)]
        return [*found.values(), *(_group(name, [found[code] for code in codes]) for name, codes in groups)]

    return Task(sets, measure)


def _accuracy(table: str, pairs: EvaluationSet, space: Space) -> TaskScore:
    vectors = space.columns(pairs)
    foreign, english = both_ways(vectors[0], vectors[1], K)
    out, back = _right(english.ids[:, 0], pairs.texts[0]), _right(foreign.ids[:, 0], pairs.texts[1])
    best = best_by_margin(foreign, english)
    out_margin, back_margin = _right(best[1], pairs.texts[0]), _right(best[0], pairs.texts[1])
    others = {
        DIRECTIONS[0]: float(out.mean()),
        DIRECTIONS[1]: float(back.mean()),
        "by margin": float((out_margin.mean() + back_margin.mean()) / 2),
        "xsim en → xx": float(1 - out_margin.mean()),
        "xsim xx → en": float(1 - back_margin.mean()),
    }
    sample = share((out.astype(np.float64) + back) / 2, f"{pairs.set} {pairs.subset}")
    return TaskScore(table, pairs.subset, MEASURE, sample, others, pairs.origin, shown=DIRECTIONS)


def _right(found: IntArray, texts: Sequence[str]) -> BoolArray:
    """Whether the text found for each line is the text of that line."""
    first = {text: row for row, text in reversed(list(enumerate(texts)))}
    number = np.array([first[text] for text in texts], dtype=np.int64)
    right: BoolArray = number[found] == number
    return right


def _group(name: str, languages: Sequence[TaskScore]) -> TaskScore:
    note = "" if int(name) == len(languages) else f"measured on {amount(len(languages), 'language')}"
    return replace(mean_of(languages, f"{name} langs"), table=GROUP_TABLE, averaged=False, shown=(), note=note)

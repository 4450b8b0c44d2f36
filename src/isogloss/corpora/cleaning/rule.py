"""What a rule is: a score for every pair, and a threshold that accepts it or not.

The two are kept apart so that a threshold can be moved without scoring again: scores are kept on disk under a name made
from everything but the threshold. Rules see text that is already normalized and never change it.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """Pairs of one corpus and one target language."""

    source: Side
    target: Side
    given: FloatArray  # what the corpus itself thinks of each pair; NaN where it says nothing
    corpus: str = ""
    dictionary: bool = False

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)

    @property
    def source_only(self) -> bool:
        """Whether these are source sentences without a translation, paired with themselves."""
        return self.source.language == self.target.language


class Rule(Protocol):
    """What cleaning needs of a rule. Rules are frozen dataclasses; the field `threshold` names decides, the rest scores."""

    name: ClassVar[str]  # what the waterfall calls it
    threshold: ClassVar[str]  # the field that may change without scoring again
    compares_sides: ClassVar[bool] = False  # if so, it does not apply to source text without a translation
    for_sentences: ClassVar[bool] = False  # if so, it does not apply to dictionary entries

    def score(self, pairs: PairBatch) -> FloatArray:
        """One number a pair."""
        ...

    def accept(self, score: FloatArray) -> BoolArray:
        """Which scores are good enough."""
        ...


def applies(rule: Rule, pairs: PairBatch) -> bool:
    """Whether a rule has anything to say about such pairs."""
    return not (rule.compares_sides and pairs.source_only) and not (rule.for_sentences and pairs.dictionary)


def scoring_settings(rule: Rule) -> dict[str, Any]:
    """Everything a rule's scores depend on: its kind and all fields but the threshold."""
    names = [one.name for one in fields(rule) if one.compare and one.name != rule.threshold]  # type: ignore[arg-type]
    return {"rule": type(rule).__name__, **{name: getattr(rule, name) for name in names}}


def worse(left: FloatArray, right: FloatArray, higher_is_better: bool = True) -> FloatArray:
    """The worse of two sides' scores: a pair is as good as its poorer side."""
    return (np.minimum if higher_is_better else np.maximum)(left, right).astype(np.float32)

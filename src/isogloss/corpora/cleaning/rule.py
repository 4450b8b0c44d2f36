"""What a cleaning rule is: a score for every pair, and a threshold that decides which scores are accepted.

The two are separate so that a threshold can change without scoring again: scores are kept on disk under a name made from
everything but the threshold. Rules see normalized text and never change it.

To add a rule, write a class like `repetition.Repetition` in a file of this folder; `rules_for` finds it. If it has a setting,
add that to `CleaningSettings` in config/sections.py.
"""

import pkgutil
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np

from isogloss.config import CleaningSettings
from isogloss.corpora import cleaning
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """Pairs of one corpus and one target language."""

    source: Side
    target: Side
    given: FloatArray  # the corpus' own score of each pair; NaN where it has none
    dictionary: bool = False

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, slots=True)
class Rule:
    """Base of all rules; every field but the threshold changes the scores."""

    name: ClassVar[str]  # in the manifest and on the screen
    order: ClassVar[int]  # rules are applied from low to high: cheap and certain ones first
    higher_is_better: ClassVar[bool] = True
    compares_sides: ClassVar[bool] = False  # not applied to source text without a translation
    for_sentences: ClassVar[bool] = False  # not applied to dictionary entries
    auto: ClassVar[str] = ""  # how `--auto` sets the threshold: by "spread" or "valley" (auto_thresholds.py), or not
    needs_model: ClassVar[bool] = False  # scored in the main process, where the similarity model is
    setting: ClassVar[str]  # the field of CleaningSettings with the threshold
    off: ClassVar[float | None] = None  # the value of that setting that turns the rule off

    threshold: float  # the lowest score that is accepted, or the highest

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> Self | None:
        """The rule for a corpus; None if the settings turn it off, and then it is not scored."""
        value = getattr(settings, cls.setting)
        return None if value == cls.off else cls(value)

    def score(self, pairs: PairBatch) -> FloatArray:
        """One number per pair, by default that of the worse side; NaN where the rule has no opinion."""
        worse = np.minimum if self.higher_is_better else np.maximum
        return worse(self.score_side(pairs.source), self.score_side(pairs.target)).astype(np.float32)

    def score_side(self, side: Side) -> FloatArray | IntArray:
        """One number per sentence, for rules that look at each side alone."""
        raise NotImplementedError

    def accept(self, score: FloatArray) -> BoolArray:
        """Which scores are good enough; NaN always is."""
        return np.asarray(~(score < self.threshold) if self.higher_is_better else ~(score > self.threshold))

    def scoring_key(self) -> dict[str, Any]:
        """Everything the scores depend on: the kind of rule and all fields but the threshold."""
        names = [field.name for field in fields(self) if field.compare and field.name != "threshold"]
        return {"rule": type(self).__name__, **{name: getattr(self, name) for name in names}}

    def applies_to(self, pairs: PairBatch) -> bool:
        """Whether the rule has anything to say about such pairs."""
        source_only = pairs.source.language == pairs.target.language
        return not (self.compares_sides and source_only) and not (self.for_sentences and pairs.dictionary)


@cache
def rule_classes() -> tuple[type[Rule], ...]:
    """Every rule class of the modules in this folder, in the order in which rules are applied."""
    found: list[type[Rule]] = []
    for module in pkgutil.iter_modules(cleaning.__path__):
        names = vars(import_module(f"{cleaning.__name__}.{module.name}"))
        own = (one for one in names.values() if isinstance(one, type) and one.__module__ == names["__name__"])
        found += [one for one in own if Rule in one.__mro__[1:]]
    return tuple(sorted(found, key=lambda one: one.order))


def rules_for(settings: CleaningSettings, corpus: str = "") -> list[Rule]:
    """The rules for one corpus, in order; those that are turned off are left out."""
    return [rule for one in rule_classes() if (rule := one.from_settings(settings, corpus)) is not None]

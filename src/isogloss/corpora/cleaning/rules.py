"""The rules that a recipe's settings ask for, found among the classes of this folder."""

import pkgutil
from functools import cache
from importlib import import_module

from isogloss.config import CleaningSettings
from isogloss.corpora import cleaning
from isogloss.corpora.cleaning.rule import Rule


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

"""Grow the vocabulary of a finished student with pieces that trimming removed.

`models/vocabulary/grow.py` computes the new rows and their effect on old text; here the original model is opened.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from isogloss.config import Recipe
from isogloss.errors import IsoglossError, ModelError
from isogloss.models.encoder import Encoder
from isogloss.models.static import StaticStudent
from isogloss.models.student import Student
from isogloss.models.vocabulary.coverage import survey
from isogloss.models.vocabulary.grow import Growth, needed_pieces, original_rows
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.models import open_student, training_text_blocks
from isogloss.types import Bitext, PairSource

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

MANY_UNKNOWN = 0.01


def grow_for(
    student: Student,
    pairs: PairSource,
    sample: Bitext,
    recipe: Recipe,
    teacher: Encoder | None,
    on_progress: OnProgress = silent,
) -> Growth | None:
    """Give the student the pieces that the recipe's languages need, chosen from `pairs` as in trimming.

    The effect on the other languages is measured on their text in `sample`. None if nothing was missing, or if the original
    cannot be opened (with a warning).
    """
    new, growth = set(recipe.languages), None
    if recipe.student.trim != "off":
        try:
            fuller, table = _original(student, recipe, teacher)
        except IsoglossError as error:
            logger.warning("the vocabulary is not extended: %s", error.message)
        else:
            pieces = needed_pieces(fuller, student.tokenizer, _texts(pairs, new), recipe.student.trim)
            given = None if table is None else original_rows(table, fuller, pieces)
            old = {*sample.languages, sample.source_language} - new
            growth = student.grow(pieces, given, list(_texts(sample, old))) if pieces else None
    _warn_of_unknown(student, sample, new)
    rows = len(student.table)
    on_progress(Step("vocabulary", rows, rows, "rows", growth_in_words(asdict(growth)) if growth else "unchanged"))
    return growth


def growth_in_words(growth: Mapping[str, Any]) -> str:
    """What growing changed, in a sentence."""
    rows = f"vocabulary {growth['rows_before']:,} → {growth['rows_after']:,} rows"
    changed = {language: share for language, share in growth["changed"].items() if share}
    if not changed:
        return f"{rows}; existing text is tokenized as before"
    worst = max(changed, key=lambda language: changed[language])
    return f"{rows}; up to {100 * changed[worst]:.1f} % of existing text ({worst}) is now tokenized differently"


def _original(student: Student, recipe: Recipe, teacher: Encoder | None) -> "tuple[PreTrainedTokenizerFast, Tensor | None]":
    """The vocabulary before trimming, and its rows unless the student is static.

    A static table was rotated and bridged as a whole, so the original rows would not fit it.
    """
    name = recipe.student.model
    table: Tensor | None = None
    if isinstance(student, StaticStudent):
        fuller = Student.from_pretrained(name, device="cpu").tokenizer
    else:
        original, _ = open_student(recipe.replace(device="cpu"), teacher)
        fuller, table = original.tokenizer, original.table.detach()
    foreign = set(student.tokenizer.get_vocab()) - set(fuller.get_vocab())
    if foreign or (table is not None and table.shape[1] != student.table.shape[1]):
        raise ModelError(f"{name} is not the model that the student's vocabulary comes from", hint="name that one")
    return fuller, table


def _texts(pairs: PairSource, languages: set[str]) -> Iterator[tuple[str, Sequence[str]]]:
    return ((language, texts) for language, texts in training_text_blocks(pairs) if language in languages)


def _warn_of_unknown(student: Student, sample: Bitext, languages: set[str]) -> None:
    seen = survey(student.tokenizer, _texts(sample, languages))
    for language in sorted(seen.languages):
        unknown = seen.unknown(language)
        if unknown > MANY_UNKNOWN:
            logger.warning("%.1f %% of the tokens of %s are unknown to the student", 100 * unknown, language)

"""The forms that a model is tried in: vocabulary × layers × dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from isogloss.amounts import amount
from isogloss.config.exporting import BudgetSettings, Trim
from isogloss.errors import RecipeError
from isogloss.exporting.budget.retraining import ShortModels
from isogloss.exporting.source import ExportSource
from isogloss.models.shrinking.shorter_embeddings import cut_embeddings
from isogloss.models.student import Student
from isogloss.models.vocabulary.coverage import Survey, survey
from isogloss.models.vocabulary.resize import state_of, with_rows
from isogloss.models.vocabulary.trim import kept_rows
from isogloss.runs.models import training_text_blocks
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TRIMMED = ("Unigram", "WordPiece")  # the merges of BPE build pieces out of pieces
SHARES = (1.0, 2 / 3, 1 / 2, 1 / 3)  # of the layers


@dataclass(frozen=True, slots=True)
class Form:
    """What is left of a model, whatever its precision."""

    trim: Trim
    rows: int  # of the token table
    layers: int
    dimension: int

    def describe(self, of: int) -> str:
        """In words; `of` is how many layers the whole model has."""
        vocabulary = {"off": "whole vocabulary", "alphabet": "alphabet vocabulary", "corpus": "corpus vocabulary"}
        layers = [amount(self.layers, "layer") if self.layers == of else f"{self.layers} of {of} layers"] if of else []
        return ", ".join([f"{vocabulary[self.trim]} of {amount(self.rows, 'token')}", *layers])


class Forms:
    """The forms of a model, and the models themselves."""

    def __init__(self, source: ExportSource, settings: BudgetSettings, short: ShortModels) -> None:
        self.source, self.settings, self.short = source, settings, short

    @cached_property
    def all_layers(self) -> int:
        """How many layers the model has; 0 for models that have none."""
        student = self.source.student
        return int(student.body.config.num_hidden_layers) if student.kind == Student.kind else 0

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Numbers of layers to try, the highest first."""
        most, wanted = self.all_layers, self.settings.layers
        if not most:
            if wanted:
                raise RecipeError(f"{self.source.name} has no layers to leave out", hint="leave --layers out")
            return (0,)
        if wanted and max(wanted) > most:
            raise RecipeError(f"--layers {max(wanted)}, but the model has {most}", hint=f"choose numbers from 1 to {most}")
        numbers = wanted or [max(1, round(share * most)) for share in SHARES]
        return tuple(sorted({*numbers}, reverse=True))

    @cached_property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of embeddings to try, the largest first: the whole one, and those that were named or trained for."""
        whole = self.source.student.dimension
        named = self.settings.dimensions
        if named and max(named) > whole:
            raise RecipeError(
                f"--dimensions {max(named)}, but embeddings have {whole} dimensions", hint=f"choose sizes from 1 to {whole}"
            )
        return tuple(sorted({whole, *(named or self._trained_dimensions())}, reverse=True))

    def _trained_dimensions(self) -> Sequence[int]:
        recipe = {} if self.source.run is None else self.source.run.recipe
        losses = [recipe.get("losses", {}), *(stage.get("losses", {}) for stage in recipe.get("stage", []))]
        whole = self.source.student.dimension
        return [size for one in losses for size in one.get("dimensions", []) if size < whole]

    @cached_property
    def _survey(self) -> Survey:
        return survey(self.source.student.tokenizer, training_text_blocks(self.source.pairs))

    @cached_property
    def trims(self) -> dict[Trim, int]:
        """The vocabularies to try with the rows that each leaves, the largest first; equal ones are left out.

        Without pairs of its own, nothing says which languages a model is for: its vocabulary stays.
        """
        student = self.source.student
        whole = len(student.table)
        known = self.source.run is not None or bool(self.source.pairs_from)
        can_trim = known and state_of(student.tokenizer)["model"]["type"] in TRIMMED
        found: dict[Trim, int] = {"off": whole}
        for how in self.settings.trims if can_trim else ():
            rows = whole if how == "off" else len(self._kept(how))
            if rows not in found.values():
                found[how] = rows
        if "off" not in self.settings.trims and len(found) > 1:
            del found["off"]
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def text_key(self) -> str:
        """Names the text that vocabularies are trimmed to."""
        return self.source.pairs.hash if len(self.trims) > 1 or "off" not in self.trims else ""

    def tokenizer(self, how: Trim) -> "PreTrainedTokenizerFast":
        """The tokenizer after trimming."""
        student = self.source.student
        return student.tokenizer if how == "off" else with_rows(student.tokenizer, self._kept(how))

    def _kept(self, how: Trim) -> IntArray:
        student = self.source.student
        prompts = [prompt for prompt in (student.prompt, *student.model.prompts.values()) if prompt]
        return kept_rows(student.tokenizer, self._survey, how, prompts)

    def all(self) -> list[Form]:
        """Every combination."""
        return [
            Form(trim, rows, layers, dimension)
            for layers in self.layers
            for trim, rows in self.trims.items()
            for dimension in self.dimensions
        ]

    def open(self, form: Form) -> Student:
        """The model in this form; trained again if it lost layers."""
        whole = form.layers == self.all_layers
        return self.shaped(self.source.student.copy() if whole else self.short(form.layers), form)

    def shaped(self, student: Student, form: Form) -> Student:
        """A model with its embeddings and its vocabulary cut; in place."""
        cut_embeddings(student, form.dimension)
        if form.trim != "off":
            student.trim(self._survey, form.trim)
        return student

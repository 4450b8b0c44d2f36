"""Settings of a recipe that cannot be meant together, refused by name before anything is read.

`config` knows what each table may hold and asks here when a recipe is whole. What only shows beside a model or the pairs is
for `training.choosing`: it refuses what cannot be trained, and says what changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from isogloss.errors import RecipeError

if TYPE_CHECKING:
    from isogloss.config import Recipe


def refuse_contradictions(recipe: "Recipe") -> None:
    """Raise for the first two settings that exclude or empty one another."""
    for found in (_nothing_to_do, _unusable_values, _widths, _parts, _lonely_pairs, _idle_patience):
        for message, hint in found(recipe):
            raise RecipeError(message, hint=hint)
    if not recipe.teacher.model:
        refuse_without_teacher(recipe, _told_to_nobody(recipe))


def refuse_without_teacher(recipe: "Recipe", others: Iterable[tuple[str, str]] = ()) -> None:
    """Raise if anything in a recipe asks for a teacher, or `others` do: all of it in one sentence, and what to set instead."""
    asking = [*_asking_for_a_teacher(recipe), *others]
    if asking:
        reasons, remedies = (_listed(told) for told in zip(*asking, strict=True))
        raise RecipeError(f"there is no teacher, but {reasons}", hint=f"name one in teacher.model, or set {remedies}")


def _asking_for_a_teacher(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    """What cannot do without one, as a clause, and the setting that can."""
    for name in ("mse", "soft_similarity"):
        if getattr(recipe.losses, name):
            yield f"losses.{name} follows one", f"losses.{name} = 0"
    if recipe.losses.moving_teacher:
        yield "losses.moving_teacher is measured beside the model it starts as", "losses.moving_teacher = 0"
    if recipe.bridge.enabled:
        yield "bridge.enabled = true leads to the space of one", "bridge.enabled = false"
    if recipe.student.kind == "teacher-body":
        yield 'student.kind = "teacher-body" is made of one', 'student.kind = "encoder"'
    if recipe.training.select == "mse":
        yield 'training.select = "mse" asks how near one is', 'training.select = "both"'


def _listed(told: Sequence[str]) -> str:
    """As a sentence has them: a, b and c."""
    *others, last = told
    return f"{', '.join(others)} and {last}" if others else last


def _told_to_nobody(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    if recipe.teacher.prompt:
        yield "teacher.prompt is what one is told", 'teacher.prompt = ""'
    if recipe.teacher.precision != "auto":
        yield f'teacher.precision = "{recipe.teacher.precision}" is what one computes in', 'teacher.precision = "auto"'


def _nothing_to_do(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    if not recipe.bridge.enabled and not recipe.training.epochs:
        yield (
            "bridge.enabled is false and training.epochs is 0: there is nothing to do",
            "turn the bridge on or train for at least one epoch",
        )
    if not recipe.pairs.files and not recipe.pairs.corpora:
        yield "pairs.files is empty", 'name files of pairs, or "phrasebook" for the shipped pairs'


def _unusable_values(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    if any(strength <= 0 for strength in recipe.bridge.strengths) or not recipe.bridge.strengths:
        yield "bridge.strengths: every ridge strength must be above 0", "for example [1e-4, 1e-2]"
    if not recipe.output.folder.strip() or "\0" in recipe.output.folder:
        yield "output.folder is empty or not a path", 'for example "runs/mine"'


def _widths(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    student = recipe.student
    if student.dimension and student.kind != "static":
        yield (
            f'student.dimension = {student.dimension} is the width of a static table, but student.kind is "{student.kind}"',
            'set student.kind = "static", or student.dimension = 0; for vectors that can be cut there is losses.dimensions',
        )


def _lonely_pairs(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    """Losses that compare a pair with the others of its batch have no gradient where there are no others."""
    losses, training = recipe.losses, recipe.training
    if training.batch_pairs > training.accumulate or training.batch_tokens:
        return
    parts = f" in {training.accumulate} parts (training.accumulate)" if training.accumulate > 1 else ""
    ranked = losses.ranking and not losses.hard_negatives  # these are others, too
    weights = {"soft_similarity": losses.soft_similarity, "ranking": ranked, "spread": losses.spread}
    for name in (name for name, weight in weights.items() if weight):
        yield (
            f"losses.{name} compares a pair with the others of its batch, but training.batch_pairs ="
            f" {training.batch_pairs}{parts} leaves it alone",
            f"raise training.batch_pairs, or set losses.{name} = 0",
        )


def _parts(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    """Two ways to a batch that memory does not hold, of which one does; a part has a pair at least."""
    training, parts = recipe.training, recipe.training.accumulate
    if parts == 1:
        return
    if training.chunk_pairs:
        yield (
            f"training.accumulate = {parts} and training.chunk_pairs = {training.chunk_pairs} both divide a batch",
            "leave one out: chunk_pairs keeps the negatives of the whole batch, accumulate encodes it only once",
        )
    if parts > training.batch_pairs and not training.batch_tokens:
        yield (
            f"training.accumulate = {parts} asks for more parts than training.batch_pairs = {training.batch_pairs} has pairs",
            "lower training.accumulate, or raise training.batch_pairs",
        )


def _idle_patience(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    training = recipe.training
    for name in ("dev_pairs", "dev_share"):
        if training.patience and not getattr(training, name):
            yield (
                f"training.patience = {training.patience} waits for a gain on dev pairs, but training.{name} = 0 keeps none",
                f"raise training.{name}, or set training.patience = 0 to train to the end",
            )

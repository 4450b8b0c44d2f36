"""From names in a recipe to models: the teacher, if there is one, and a student of the kind that is asked for, cut to size."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from isogloss.config import Recipe
from isogloss.errors import RecipeError
from isogloss.models.encoder import SentenceEncoder, load
from isogloss.models.layer_dropping import drop_layers
from isogloss.models.loading import choose_device, open_model
from isogloss.models.static import StaticStudent, static_student
from isogloss.models.student import Student
from isogloss.models.teacher_body import with_vocabulary
from isogloss.models.vector_cache import default_folder
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import TRAIN, PairSource


def open_models(
    recipe: Recipe, pairs: PairSource, on_progress: OnProgress = silent
) -> tuple[SentenceEncoder | None, Student, dict[str, Any]]:
    """Load teacher and student, trim the student to the recipe's languages, and say what was done to it."""
    names, teacher = [name for name in (recipe.teacher.model, recipe.student.model) if name], None
    if recipe.teacher.model:
        settings = recipe.teacher
        on_progress(Step("models", 0, len(names), "models", f"loading {settings.model}"))
        teacher = load(settings.model, settings.prompt, settings.batch_size, recipe.device, settings.precision)
    on_progress(Step("models", len(names) - 1, len(names), "models", f"loading {recipe.student.model}"))
    student, done = open_student(recipe, teacher, pairs, on_progress)
    trimming = student.trimming
    if recipe.student.trim != "off" and trimming is None:
        trimming = student.trim(text_blocks(pairs), recipe.student.trim)
    note = ""
    if trimming is not None:
        done["trimming"] = trimming.as_dict()
        note = f"vocabulary {trimming.rows_before:,} → {trimming.rows_after:,} rows"
    on_progress(Step("models", len(names), len(names), "models", note))
    return teacher, student, done


def open_student(
    recipe: Recipe, teacher: SentenceEncoder | None, pairs: PairSource | None = None, on_progress: OnProgress = silent
) -> tuple[Student, dict[str, Any]]:
    """The student by its kind: an encoder, the teacher's body with another vocabulary, or a static table.

    With `pairs`, a static table is made of the rows alone that trimming would leave.
    """
    settings = recipe.student
    device, done = choose_device(recipe.device), {}  # type: str, dict[str, Any]
    if settings.kind == "static":
        student: Student = _static(recipe, device, pairs, on_progress)
    elif settings.kind == "teacher-body":
        assert teacher is not None  # or the recipe would have been refused
        made = with_vocabulary(teacher.model, open_model(settings.model).tokenizer, recipe.teacher.model, recipe.seed)
        name = f"{recipe.teacher.model} with the vocabulary of {settings.model}"
        student = Student(made.model, name, settings.prompt, settings.max_tokens)
        done["new_rows"] = asdict(made.new_rows)
    else:
        student = Student(open_model(settings.model), settings.model, settings.prompt, settings.max_tokens)
    if settings.layers:
        done["layers"] = drop_layers(student.body, settings.layers).as_dict()
    student.model.to(device)
    return student, done


def _static(recipe: Recipe, device: str, pairs: PairSource | None, on_progress: OnProgress) -> StaticStudent:
    """A table that is one already, or one made from the tokens of an encoder, trimmed first: it reads each token left."""
    settings = recipe.student
    if settings.layers or recipe.training.train_layers:
        raise RecipeError(
            "a static student has no layers, but student.layers or training.train_layers is set", hint="set them to 0"
        )
    model = open_model(settings.model)
    if type(model[0]).__name__ == "StaticEmbedding":
        if settings.dimension not in (0, width := int(model.get_embedding_dimension() or 0)):
            raise RecipeError(
                f"student.dimension = {settings.dimension}, but {settings.model} is a static table of dimension {width}",
                hint="leave student.dimension out, or name an encoder to make a new table from",
            )
        return StaticStudent(model, settings.model, settings.prompt, settings.max_tokens)
    encoder = Student(model.to(device), settings.model, settings.prompt, settings.max_tokens)
    if pairs is not None and settings.trim != "off":
        encoder.trim(text_blocks(pairs), settings.trim)
    student = static_student(
        encoder.tokenizer,
        settings.dimension or encoder.dimension,
        encoder.model,
        name=f"static {settings.model}",
        prompt=settings.prompt,
        max_tokens=settings.max_tokens,
        seed=recipe.seed,
        on_progress=on_progress,
        cache=cache_of(recipe),
    )
    student.trimming = encoder.trimming
    return student


def cache_of(recipe: Recipe) -> Path:
    """Where the teacher's vectors and token tables are kept for all runs."""
    return Path(recipe.output.cache) if recipe.output.cache else default_folder()


def text_blocks(pairs: PairSource) -> Iterator[tuple[str, Sequence[str]]]:
    """The text that is trained on by language, block by block, the source language included."""
    for block in pairs.in_blocks(TRAIN):
        yield pairs.source_language, block.column("source").unique().to_pylist()
        for language in block.column("language").unique().to_pylist():
            if language != pairs.source_language:
                spoken = block.filter(pc.equal(block.column("language"), language))
                yield language, spoken.column("target").to_pylist()

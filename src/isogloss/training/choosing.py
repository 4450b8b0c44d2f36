"""From a recipe to what trains by it: the objectives, and the engine that fits them, the student and the machine."""

from collections.abc import Callable
from dataclasses import fields

import torch

from isogloss.config import ObjectiveSettings, Recipe
from isogloss.errors import ModelError, RecipeError
from isogloss.objectives.combined import Objectives
from isogloss.students.frozen import Activations, SplitBody
from isogloss.students.student import Student
from isogloss.training.captured import CapturedEngine
from isogloss.training.crew import Crew
from isogloss.training.engine import Descent, Engine, Material
from isogloss.training.live import LiveTeacher
from isogloss.training.plain import How, PlainEngine

COMPILED_FROM_STEPS = 3_000  # a minute of compiling is worth it from here on
Frozen = tuple[SplitBody | None, Callable[[], tuple[SplitBody, Activations] | None]]


def objectives_of(settings: ObjectiveSettings) -> Objectives:
    """The objectives that a recipe asks for."""
    known = {one.name for one in fields(Objectives)}
    return Objectives(**{one.name: getattr(settings, one.name) for one in fields(settings) if one.name in known})


def refuse_misfits(student: Student, teacher_dimension: int, recipe: Recipe) -> None:
    """What cannot be trained is said before the teacher's hours, not after them."""
    objectives, bridged = objectives_of(recipe.objectives), recipe.bridge.enabled
    if not recipe.training.epochs:
        return
    width = teacher_dimension if bridged else student.dimension
    if "mse" in objectives.active and width != teacher_dimension:
        raise ModelError(
            f"{student.name} gives {student.dimension}-d vectors, the teacher {teacher_dimension}-d",
            hint="a bridge is needed between them: set bridge.enabled = true",
        )
    if max(objectives.dimensions, default=0) > width:
        raise RecipeError(
            f"objectives.dimensions asks for the first {max(objectives.dimensions)} numbers of vectors that have {width}",
            hint=f"choose lengths up to {width}",
        )
    if objectives.dimensions and "soft_similarity" in objectives.active and width != teacher_dimension:
        raise RecipeError(
            f"objectives.dimensions shortens the teacher's vectors with the student's, but they have {teacher_dimension} and"
            f" {width} numbers",
            hint="set bridge.enabled = true, or leave one of objectives.dimensions and objectives.soft_similarity out",
        )
    reason = _why_not_captured(student, recipe, Crew.here()) if recipe.training.engine == "captured" else ""
    if reason:
        raise RecipeError(f'training.engine = "captured", but {reason}', hint='set training.engine = "auto"')


def choose_engine(
    student: Student,
    material: Material,
    objectives: Objectives,
    descent: Descent,
    recipe: Recipe,
    frozen: Frozen,
    crew: Crew,
) -> Engine:
    """The captured engine wherever it can train what is asked for, else the plain one. Asked for by name, it must fit."""
    settings = recipe.training
    reason = _why_not_captured(student, recipe, crew)
    if settings.engine == "captured" and reason:
        raise RecipeError(f'training.engine = "captured", but {reason}', hint='set training.engine = "auto"')
    if settings.engine != "plain" and not reason:
        dtype = torch.float32 if settings.precision == "float32" else torch.bfloat16
        compiled = len(descent.rates) >= COMPILED_FROM_STEPS
        return CapturedEngine(student, material, objectives, descent, settings.batch_pairs, dtype, compiled=compiled)
    live = LiveTeacher(student, len(descent.rates), recipe.objectives.teacher_decay) if objectives.moving_teacher else None
    on_cuda = student.model.device.type == "cuda"
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and on_cuda)
    how = How(settings.chunk_pairs, bf16, settings.dropout, *frozen)
    return PlainEngine(student, material, objectives, descent, crew, how, live)


def _why_not_captured(student: Student, recipe: Recipe, crew: Crew) -> str:
    """What keeps steps from being recorded, as the end of a sentence; empty if nothing does."""
    settings, objectives = recipe.training, recipe.objectives
    hindrances = {
        "the student is not on a CUDA device": student.model.device.type != "cuda",
        "several processes train together": crew.size > 1,
        "training.train_layers freezes layers": bool(settings.train_layers),
        "training.dropout is on": settings.dropout,
        "training.chunk_pairs or training.batch_tokens is set": bool(settings.chunk_pairs or settings.batch_tokens),
        "training.optimiser is not adamw": settings.optimiser != "adamw",
        "the teacher moves": bool(objectives.moving_teacher),
        "hard negatives are mined": bool(objectives.hard_negatives),
        "the student is a static table": student.is_static,
    }
    for reason, holds in hindrances.items():
        if holds:
            return reason
    return "" if student.packs else f"{type(student.body).__name__} with {student.pooling} pooling cannot do without padding"

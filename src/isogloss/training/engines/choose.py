"""From a recipe to what trains by it: the losses, and the engine that fits them, the student and the machine.

What a recipe alone shows to be impossible was refused by `contradictions`; here models are known, too. `refuse_misfits`
ends what cannot be trained, `ignored_settings` names settings that would be passed over in silence.
"""

import logging
from collections.abc import Callable
from dataclasses import fields

import torch

from isogloss.amounts import amount
from isogloss.config import LossSettings, Recipe
from isogloss.config.contradictions import refuse_without_teacher
from isogloss.errors import ModelError, RecipeError
from isogloss.losses.combined import CombinedLoss
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, SentenceEngine, TrainingInputs
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.engines.fixed_batch import may_read_all
from isogloss.training.engines.graphs import GraphEngine
from isogloss.training.health import Diagnosis
from isogloss.training.moving_teacher import MovingTeacher

logger = logging.getLogger(__name__)

COMPILED_FROM_STEPS = 3_000  # a minute of compiling is worth it from here on
FOLLOW_THE_TEACHER = {"mse", "soft_similarity"}  # losses that look at the vectors of a teacher that stays as it is
Frozen = tuple[SplitBody | None, Callable[[], tuple[SplitBody, Activations] | None]]


def combined_loss(settings: LossSettings) -> CombinedLoss:
    """The losses that a recipe asks for."""
    known = {one.name for one in fields(CombinedLoss)}
    return CombinedLoss(**{name: value for name, value in settings if name in known})


def needs_teacher_vectors(recipe: Recipe) -> bool:
    """Whether the vectors of a teacher that stays as it is decide where the student goes: by a bridge, or by a loss."""
    taught = recipe.training.epochs and FOLLOW_THE_TEACHER & set(combined_loss(recipe.losses).active)
    return recipe.bridge.enabled or bool(taught)


def uses_teacher(recipe: Recipe) -> bool:
    """Whether a teacher has any say: the student follows it, is made of it, or has one that moves, which is measured by it."""
    return needs_teacher_vectors(recipe) or bool(recipe.losses.moving_teacher) or recipe.student.kind == "teacher-body"


def refuse_misfits(student: Student, teacher_dimension: int | None, recipe: Recipe) -> None:
    """What cannot be trained is said before the teacher's hours, not after them. Without a teacher its dimension is None."""
    if teacher_dimension is None:
        refuse_without_teacher(recipe)
    if not recipe.training.epochs:
        return
    combined, width = combined_loss(recipe.losses), _width(student.dimension, teacher_dimension, recipe)
    if "mse" in combined.active and width != teacher_dimension:
        raise ModelError(
            f"{student.name} gives {student.dimension}-d vectors, the teacher {teacher_dimension}-d",
            hint="a bridge is needed between them: set bridge.enabled = true",
        )
    if max(combined.dimensions, default=0) > width:
        raise RecipeError(
            f"losses.dimensions asks for the first {amount(max(combined.dimensions), 'dimension')} of vectors"
            f" that have {width}",
            hint=f"choose lengths up to {width}",
        )
    if combined.dimensions and "soft_similarity" in combined.active and width != teacher_dimension:
        raise RecipeError(
            f"losses.dimensions shortens the teacher's vectors with the student's, but theirs have"
            f" dimension {teacher_dimension} and the student's {width}",
            hint="set bridge.enabled = true, or leave one of losses.dimensions and losses.soft_similarity out",
        )
    reason = _why_not_captured(student, recipe, Distributed.here()) if recipe.training.engine == "captured" else ""
    if reason:
        raise RecipeError(f'training.engine = "captured", but {reason}', hint='set training.engine = "auto"')


def _width(student_dimension: int, teacher_dimension: int | None, recipe: Recipe) -> int:
    """Length of the vectors that are trained."""
    return student_dimension if teacher_dimension is None or not recipe.bridge.enabled else teacher_dimension


def ignored_settings(student_dimension: int, teacher_dimension: int | None, recipe: Recipe) -> list[Diagnosis]:
    """Settings that change nothing with these models: not worth an end, but worth a word."""
    if teacher_dimension is None or not recipe.training.epochs:
        return []
    return [
        *_idle_teacher(recipe),
        *_idle_choice(_width(student_dimension, teacher_dimension, recipe), teacher_dimension, recipe),
    ]


def _idle_teacher(recipe: Recipe) -> list[Diagnosis]:
    if uses_teacher(recipe):
        return []
    sentence = "no loss follows the teacher, and no bridge leads to its space: it is only what the result is measured beside"
    return [Diagnosis("unheeded", sentence, 'set teacher.model = "" to do without it, or add losses.mse')]


def _idle_choice(width: int, teacher_dimension: int, recipe: Recipe) -> list[Diagnosis]:
    """A checkpoint that cannot be chosen by what is asked for."""
    settings = recipe.training
    if settings.select != "mse" or not settings.dev_pairs:
        return []
    if not FOLLOW_THE_TEACHER & set(combined_loss(recipe.losses).active):
        reason, remedy = "no loss follows a teacher that stays where it is", "add losses.mse"
    elif width != teacher_dimension:
        reason = f"the student's vectors have dimension {width} and the teacher's {teacher_dimension}"
        remedy = "set bridge.enabled = true"
    else:
        return []
    asked = f'training.select = "mse" asks how near the teacher is, but {reason}'
    done = "the best checkpoint will be the one that finds most translations"
    return [Diagnosis("unheeded", f"{asked}: {done}", f'{remedy}, or set training.select = "both"')]


def choose_engine(
    student: Student,
    material: TrainingInputs,
    combined: CombinedLoss,
    descent: OptimizerConfig,
    recipe: Recipe,
    frozen: Frozen,
    distributed: Distributed,
) -> SentenceEngine:
    """The captured engine wherever it can train what is asked for, else the plain one. Asked for by name, it must fit."""
    settings, on_cuda = recipe.training, student.model.device.type == "cuda"
    reason = "" if settings.engine == "plain" else _why_not_captured(student, recipe, distributed, material.tokens)
    if settings.engine == "captured" and reason:
        raise RecipeError(f'training.engine = "captured", but {reason}', hint='set training.engine = "auto"')
    if settings.engine != "plain" and not reason:
        dtype = torch.float32 if settings.precision == "float32" else torch.bfloat16
        compiled = len(descent.rates) >= COMPILED_FROM_STEPS
        return GraphEngine(student, material, combined, descent, settings.batch_pairs, dtype, compiled=compiled)
    if reason and on_cuda and distributed.is_main_process:
        logger.warning("steps are not recorded as CUDA graphs: %s", reason)
    live = MovingTeacher(student, len(descent.rates), recipe.losses.teacher_decay) if combined.moving_teacher else None
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and on_cuda)
    how = EngineConfig(settings.chunk_pairs, bf16, settings.dropout, *frozen, accumulate=settings.accumulate)
    return EagerEngine(student, material, combined, descent, distributed, how, live)


def _why_not_captured(student: Student, recipe: Recipe, distributed: Distributed, tokens: TokenStore | None = None) -> str:
    """What keeps steps from being recorded, as the end of a sentence; empty if nothing does.

    Some batches keep them from it, too: that is looked at where there are `tokens` to look at.
    """
    settings, losses = recipe.training, recipe.losses
    hindrances = {
        "the student is not on a CUDA device": student.model.device.type != "cuda",
        "several processes train together": distributed.size > 1,
        "training.train_layers freezes layers": bool(settings.train_layers),
        "training.dropout is on": settings.dropout,
        "training.chunk_pairs or training.batch_tokens is set": bool(settings.chunk_pairs or settings.batch_tokens),
        "training.accumulate works through a batch in parts": settings.accumulate > 1,
        "training.optimizer is not adamw": settings.optimizer != "adamw",
        "the teacher moves": bool(losses.moving_teacher),
        "hard negatives are mined": bool(losses.hard_negatives),
        "the student is a static table": student.is_static,
    }
    for reason, holds in hindrances.items():
        if holds:
            return reason
    if not student.packs:
        return f"{type(student.body).__name__} with {student.pooling} pooling cannot do without padding"
    if tokens is not None and may_read_all(tokens, settings.batch_pairs, len(student.table)):
        return f"a batch might read every row of the {len(student.table)} that the vocabulary has"
    return ""

"""Which engine trains what: CUDA graphs wherever possible, else the eager one; and which recipes fit which models.

`config.contradictions` refuses what a recipe alone shows to be impossible; here the models are known, too. `refuse_misfits`
refuses what cannot be trained, `ignored_settings` names settings that have no effect.
"""

import logging
from collections.abc import Sequence

import torch
from torch import nn

from isogloss.amounts import amount
from isogloss.config import LossSettings, Recipe, TrainingSettings
from isogloss.config.contradictions import refuse_without_teacher
from isogloss.config.sections import FIXED_TEACHER_LOSSES, SAME_SPACE_LOSSES
from isogloss.errors import ModelError, RecipeError
from isogloss.models.student import Student
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine, OptimizerConfig
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.engines.fixed_batch import may_read_all
from isogloss.training.engines.graphs import GraphEngine
from isogloss.training.engines.model_graphs import ModelGraphEngine
from isogloss.training.health import Diagnosis
from isogloss.training.tasks.protocol import FixedShapeTask, ModelTask, Task

logger = logging.getLogger(__name__)

COMPILED_FROM_STEPS = 3_000  # a minute of compiling is worth it from here on


def needs_teacher_vectors(recipe: Recipe) -> bool:
    """Whether the bridge or a loss compares with the embeddings of a fixed teacher."""
    return recipe.bridge.enabled or bool(recipe.training.epochs and uses_fixed_teacher(recipe.losses))


def uses_fixed_teacher(losses: LossSettings) -> bool:
    """Whether a loss compares with the embeddings of a teacher that does not change."""
    return any(name in losses.weights for name in FIXED_TEACHER_LOSSES)


def uses_teacher(recipe: Recipe) -> bool:
    """Whether a recipe makes any use of a teacher, fixed or moving."""
    return needs_teacher_vectors(recipe) or bool(recipe.losses.moving_teacher) or recipe.student.kind == "teacher-body"


def refuse_misfits(student: Student, teacher_dimension: int | None, recipe: Recipe) -> None:
    """Refuse what cannot be trained, before the teacher embeds anything. Without a teacher its dimension is None."""
    if teacher_dimension is None:
        refuse_without_teacher(recipe)
    if not recipe.training.epochs:
        return
    losses, width = recipe.losses, _width(student.dimension, teacher_dimension, recipe)
    if width != teacher_dimension and any(name in losses.weights for name in SAME_SPACE_LOSSES):
        raise ModelError(
            f"{student.name} gives {student.dimension}-d vectors, the teacher {teacher_dimension}-d",
            hint="a bridge is needed between them: set bridge.enabled = true",
        )
    if max(losses.dimensions, default=0) > width:
        raise RecipeError(
            f"losses.dimensions asks for the first {amount(max(losses.dimensions), 'dimension')} of vectors that have {width}",
            hint=f"choose lengths up to {width}",
        )
    if losses.dimensions and losses.soft_similarity and width != teacher_dimension:
        raise RecipeError(
            f"losses.dimensions shortens the teacher's vectors with the student's, but theirs have"
            f" dimension {teacher_dimension} and the student's {width}",
            hint="set bridge.enabled = true, or leave one of losses.dimensions and losses.soft_similarity out",
        )
    settings = recipe.training
    if settings.engine == "graphs":
        reason = why_not_recorded(settings, losses.moving_teacher)
        reason = reason or why_not_graphs(student, (), settings.optimizer, Distributed.here())
        if reason:
            raise RecipeError(f'training.engine = "graphs", but {reason}', hint='set training.engine = "auto"')


def _width(student_dimension: int, teacher_dimension: int | None, recipe: Recipe) -> int:
    """The dimension of the embeddings that are trained."""
    return student_dimension if teacher_dimension is None or not recipe.bridge.enabled else teacher_dimension


def ignored_settings(student_dimension: int, teacher_dimension: int | None, recipe: Recipe) -> list[Diagnosis]:
    """Settings that have no effect with these models, for warnings."""
    settings, found = recipe.training, []
    if teacher_dimension is None or not settings.epochs:
        return []
    if not uses_teacher(recipe):
        sentence = "no loss and no bridge uses the teacher: it is only what the result is measured beside"
        found.append(Diagnosis(sentence, 'set teacher.model = "" to do without it, or add losses.mse'))
    width = _width(student_dimension, teacher_dimension, recipe)
    reason, remedy = "", ""
    if not uses_fixed_teacher(recipe.losses):
        reason, remedy = "no loss uses a fixed teacher", "add losses.mse"
    elif width != teacher_dimension:
        reason = f"the student's vectors have dimension {width} and the teacher's {teacher_dimension}"
        remedy = "set bridge.enabled = true"
    if reason and settings.select == "mse" and settings.dev_pairs:
        sentence = f'training.select = "mse" chooses by the distance to the teacher, but {reason}: the best checkpoint will be'
        sentence += " the one that finds most translations"
        found.append(Diagnosis(sentence, f'{remedy}, or set training.select = "both"'))
    return found


def choose_engine(
    model: Student | nn.Module,
    tasks: Sequence[Task],
    optimizer: OptimizerConfig,
    config: EngineConfig,
    distributed: Distributed,
) -> Engine:
    """CUDA graphs if they can train these tasks, else the eager engine; with `config.engine` "graphs" that is an error."""
    if config.engine == "eager":
        return EagerEngine(model, tasks, optimizer, distributed, config)
    reason = config.not_recorded or why_not_graphs(model, tasks, optimizer.optimizer, distributed, config.batch_sizes)
    if reason and config.engine == "graphs":
        raise RecipeError(f'training.engine = "graphs", but {reason}', hint='set training.engine = "auto"')
    if reason:
        if device_of(model).type == "cuda" and distributed.is_main_process:
            logger.warning("steps are not recorded as CUDA graphs: %s", reason)
        return EagerEngine(model, tasks, optimizer, distributed, config)
    fixed_shapes = [task for task in tasks if isinstance(task, FixedShapeTask)]
    if fixed_shapes:
        return ModelGraphEngine(model, fixed_shapes, optimizer, config.batch_sizes, config)
    assert isinstance(model, Student)
    sentence_tasks = [task for task in tasks if not isinstance(task, ModelTask)]
    dtype = torch.bfloat16 if config.bf16 else torch.float32
    compiled = len(optimizer.rates) >= COMPILED_FROM_STEPS
    return GraphEngine(model, sentence_tasks, optimizer, config.batch_sizes, dtype, dropout=config.dropout, compiled=compiled)


def why_not_recorded(settings: TrainingSettings, moving_teacher: float = 0.0) -> str:
    """What in the settings keeps steps from being recorded, as the end of a sentence; empty if nothing does."""
    obstacles = {
        "training.train_layers freezes layers": settings.train_layers,
        "training.chunk_pairs or training.batch_tokens is set": settings.chunk_pairs or settings.batch_tokens,
        "training.accumulate works through a batch in parts": settings.accumulate > 1,
        "the teacher moves": moving_teacher,
    }
    return next((reason for reason, holds in obstacles.items() if holds), "")


def why_not_graphs(
    model: Student | nn.Module,
    tasks: Sequence[Task],
    optimizer: str,
    distributed: Distributed,
    batch_sizes: Sequence[int] = (),
) -> str:
    """What keeps the steps of a model's tasks from being recorded, as the end of a sentence; empty if nothing does."""
    obstacles = {
        "the model is not on a CUDA device": device_of(model).type != "cuda",
        "several processes train together": distributed.size > 1,
        "training.optimizer is not adamw": optimizer != "adamw",
    }
    if any(obstacles.values()):
        return next(reason for reason, holds in obstacles.items() if holds)
    if tasks and all(isinstance(task, FixedShapeTask) for task in tasks):
        return ""
    sentence_tasks = [task for task in tasks if not isinstance(task, ModelTask)]
    if len(sentence_tasks) < len(tasks):
        name = next(task.name for task in tasks if isinstance(task, ModelTask))
        return f"the batches of {name} have no fixed shape"
    if not isinstance(model, Student) or not hasattr(model.model[0], "auto_model"):
        return "the model is not a student with a transformer body"
    if not model.packs:
        return f"{type(model.body).__name__} with {model.pooling} pooling cannot do without padding"
    for task, examples in zip(sentence_tasks, batch_sizes, strict=False):
        first = task.prepare(torch.arange(1).numpy())
        sides = sum(at.size for at in first.at.values())
        if may_read_all(task.tokens, sides * examples, len(model.table)):
            return f"a batch might read every row of the {len(model.table)} that the vocabulary has"
    return ""


def device_of(model: Student | nn.Module) -> torch.device:
    """Where a model is."""
    return model.model.device if isinstance(model, Student) else next(model.parameters()).device

"""`train`: train a model by any tasks, with checkpoints, dev scores and callbacks.

`tasks.protocol` says what a task is. `tasks.schedule.TaskSchedule` says which examples each step sees, an engine takes the
steps, and `trainer.Trainer` does the rest. `distillation.Distillation` does the same for a recipe with a teacher, a bridge and
balanced corpora.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isogloss.amounts import amount
from isogloss.config import TrainingSettings, setting
from isogloss.errors import IsoglossError, RecipeError
from isogloss.models.encoder import weights_key
from isogloss.models.student import Student
from isogloss.progress import OnProgress, silent
from isogloss.storage import canonical_json, content_hash
from isogloss.training import checkpoints
from isogloss.training.batches import Schedule
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.choose import choose_engine, why_not_recorded
from isogloss.training.engines.eager import EngineConfig
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.schedule import TaskSchedule
from isogloss.training.trainer import Callback, Evaluator, Trainer, TrainingSummary


class TaskSettings(TrainingSettings):
    """How a model is trained by tasks. The defaults are those of SBERT (Reimers & Gurevych 2019).

    The settings that select pairs (`batch_tokens`, `dev_pairs`, `dev_share`), `train_layers` and `trackers` are for recipes.
    """

    table = ""  # they are no table of a recipe
    epochs: int = setting(1, "Epochs over the examples of the first task.", at_least=1)
    batch_pairs: int = setting(16, "Examples per batch, over all processes.", at_least=1)
    learning_rate: float = setting(2e-5, "Peak learning rate.", at_least=0.0)
    dropout: bool = setting(True, "Use the model's dropout in training.")
    batches: tuple[int, ...] = setting((), "Examples per batch for each task; empty takes `batch_pairs` for all.")
    weights: tuple[float, ...] = setting(
        (), "Share of the steps per task, or with `together` the weight of its loss; empty: by batches, or 1."
    )
    together: bool = setting(False, "Every step takes a batch of every task, not of one of them.")
    seed: int = setting(17, "Random seed; the same machine gives the same weights again.", at_least=0, at_most=2**32 - 1)


def train(
    model: Student | nn.Module,
    tasks: Task | Sequence[Task],
    settings: TaskSettings | None = None,
    dev: Evaluator | None = None,
    folder: Path | str | None = None,
    on_progress: OnProgress = silent,
    stage: str = "train",
    key: str = "",
    callbacks: Sequence[Callback] = (),
) -> TrainingSummary:
    """Train `model` (and the tasks' heads) in place; with `dev`, it ends with the weights that scored best there.

    With `folder`, checkpoints are kept there under a name made from the initial weights, the settings, the tasks' names and
    sizes, and `key`, which should name the examples and the dev set; the same call resumes from the last one. Under
    `isogloss launch` or torchrun, all processes train together.
    """
    tasks, settings = list(tasks) if isinstance(tasks, Sequence) else [tasks], settings or TaskSettings()
    schedule = schedule_of(tasks, settings)
    sizes = [[task.name, len(task)] for task in tasks]
    start = "" if folder is None else model.fingerprint if isinstance(model, Student) else weights_key(model)
    learned_from = checkpoints.learned_from(settings)
    reason = "a step takes a batch of every task" if settings.together and len(tasks) > 1 else ""
    config = EngineConfig.of(
        settings,
        model,
        batch_sizes=schedule.batches,
        task_weights=settings.weights if settings.together else (),
        not_recorded=reason or why_not_recorded(settings.replace(batch_tokens=0, train_layers=0)),
    )
    return fit(
        model,
        tasks,
        schedule,
        settings,
        config,
        settings.seed,
        folder=None if folder is None else Path(folder),
        key=content_hash(start, key, canonical_json([learned_from, sizes, 0 if dev is None else len(dev)]))[:16],
        learned_from={"training": learned_from},
        dev=dev,
        on_progress=on_progress,
        stage=stage,
        callbacks=callbacks,
    )


def fit(
    model: Student | nn.Module,
    tasks: Sequence[Task],
    schedule: Schedule | TaskSchedule,
    settings: TrainingSettings,
    config: EngineConfig,
    seed: int,
    *,
    folder: Path | None,
    key: str,
    learned_from: dict[str, Any],
    dev: Evaluator | None,
    on_progress: OnProgress,
    stage: str,
    callbacks: Sequence[Callback],
    has_teacher: bool = False,
) -> TrainingSummary:
    """Take the steps of a schedule: what `train` and `Distillation.train` have in common.

    `key` names everything that the weights depend on, and so the folder of checkpoints; `learned_from` are the settings among
    it, which are stored there.
    """
    distributed, optimizer = Distributed.here(), OptimizerConfig.of(settings, schedule.steps)
    torch.manual_seed(seed)
    engine = choose_engine(model, tasks, optimizer, config, distributed)
    try:
        place = None if folder is None else checkpoints.folder_of(folder, key, engine.kind)
        if place is not None:
            checkpoints.open_folder(place, {"stage": stage, **learned_from}, distributed)
        data = engine, schedule, settings, optimizer, dev, place
        return Trainer(*data, distributed, on_progress, stage, callbacks, has_teacher).run()
    finally:
        engine.close()


def schedule_of(tasks: Sequence[Task], settings: TaskSettings) -> TaskSchedule:
    """The steps of a training, before it begins; settings that do not fit the tasks are refused."""
    if not tasks or not all(len(task) for task in tasks):
        empty = next((task.name for task in tasks if not len(task)), "training")
        raise IsoglossError(f"{empty} has no examples", hint="name files that have some")
    for name, values in (("batches", settings.batches), ("weights", settings.weights)):
        if values and (len(values) != len(tasks) or min(values) <= 0):
            raise RecipeError(
                f"{name} = {list(values)} does not fit {amount(len(tasks), 'task')}", hint="one number above 0 for each"
            )
    batches = settings.batches or [settings.batch_pairs] * len(tasks)
    sizes = [len(task) for task in tasks]
    return TaskSchedule(
        sizes, batches, settings.seed, settings.epochs, settings.steps, settings.weights, together=settings.together
    )

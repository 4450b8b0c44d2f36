"""Training by tasks: `run_tasks` trains a model by one task or several, with checkpoints, dev scores and callbacks.

`protocol` says what a task is. `schedule.TaskSchedule` says which examples each step sees, an engine takes the steps, and
`trainer.Trainer` does the rest. `distill.Distillation` is the same for a recipe with a teacher, a bridge and balanced corpora.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isogloss.amounts import amount
from isogloss.config import Engine, Optimizer, Precision, Schedule, Settings, as_dict, setting
from isogloss.errors import IsoglossError, RecipeError
from isogloss.models.encoder import weights_key
from isogloss.models.student import Student
from isogloss.progress import OnProgress, silent
from isogloss.storage import canonical_json, content_hash
from isogloss.training import checkpoints
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.choose import choose_engine
from isogloss.training.engines.eager import EngineConfig
from isogloss.training.schedules import learning_rates
from isogloss.training.tasks.protocol import Task as Task
from isogloss.training.tasks.schedule import TaskSchedule
from isogloss.training.trainer import Callback, Dev, LoopConfig, Trainer, TrainingSummary

NOT_LEARNT_FROM = ("checkpoint_seconds", "engine")  # settings that change no weight


class TaskSettings(Settings):
    """How a student is trained by tasks. The defaults are those of SBERT (Reimers & Gurevych 2019)."""

    epochs: int = setting(1, "Epochs over the examples of the first task.", at_least=1)
    steps: int = setting(0, "Steps instead of epochs; 0 counts epochs.", at_least=0)
    batch: int = setting(16, "Examples per batch.", at_least=1)
    batches: tuple[int, ...] = setting((), "The same per task; empty takes `batch` for all.")
    weights: tuple[float, ...] = setting(
        (), "Share of the steps per task, or with `together` the weight of its loss; empty: by batches, or 1."
    )
    together: bool = setting(False, "Every step takes a batch of every task, not of one of them.")
    learning_rate: float = setting(2e-5, "Peak learning rate.", at_least=0.0)
    warmup: float = setting(0.1, "Warmup as a share of the steps; 1 or more is a number of steps.", at_least=0.0)
    schedule: Schedule = setting("linear", "How the learning rate falls after the warmup.")
    weight_decay: float = setting(0.01, "Weight decay of matrices (not of biases and norms).", at_least=0.0)
    clip_norm: float = setting(1.0, "Maximum gradient norm; 0 turns clipping off.", at_least=0.0)
    optimizer: Optimizer = setting("adamw", "AdamW or LARS.")
    precision: Precision = setting("auto", "Precision of training: auto is bf16 on CUDA, else float32.")
    dropout: bool = setting(True, "Use the model's dropout in training.")
    seed: int = setting(17, "The same seed on the same machine gives the same weights.", at_least=0, at_most=2**32 - 1)
    dev_checks: int = setting(10, "Number of dev measurements, spread over the training.", at_least=1)
    select: str = setting("", "The dev score that the best weights are chosen by, if there are several.")
    patience: int = setting(0, "Stop after this many dev measurements without a gain; 0 trains to the end.", at_least=0)
    checkpoint_seconds: float = setting(20.0, "Seconds between checkpoints.", at_least=0.0)
    engine: Engine = setting("auto", "How steps run: as recorded CUDA graphs if possible, or eagerly.")


def run_tasks(
    model: Student | nn.Module,
    tasks: Sequence[Task],
    settings: TaskSettings,
    dev: Dev | None = None,
    folder: Path | None = None,
    on_progress: OnProgress = silent,
    stage: str = "train",
    key: str = "",
    callbacks: Sequence[Callback] = (),
) -> TrainingSummary:
    """Train `model` (and the tasks' heads) in place; with `dev`, it ends with the weights that did best there.

    With `folder`, checkpoints are kept there under a name made from the initial weights, the settings, the tasks' names and
    sizes, and `key`, which should name the examples and the dev set; the same call resumes from the last one. Under
    `isogloss launch` or torchrun, all processes train together.
    """
    schedule, distributed = schedule_of(tasks, settings), Distributed.here()
    rates, rising = learning_rates(settings.learning_rate, schedule.steps, settings.warmup, settings.schedule)
    optimizer = OptimizerConfig(rates, settings.weight_decay, settings.clip_norm, settings.optimizer)
    name = "" if folder is None else _training_name(model, tasks, settings, dev, key)  # before an engine owns the weights
    torch.manual_seed(settings.seed)
    on_cuda = (model.model if isinstance(model, Student) else next(model.parameters())).device.type == "cuda"
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and on_cuda)
    engine = choose_engine(
        model,
        tasks,
        optimizer,
        EngineConfig(bf16=bf16, dropout=settings.dropout),
        distributed,
        engine=settings.engine,
        batch_sizes=schedule.batches,
        weights=settings.weights if settings.together else (),
        reason="a step takes a batch of every task" if settings.together and len(tasks) > 1 else "",
    )
    place = None if folder is None else checkpoints.folder_of(folder, name, engine.kind)
    if place is not None:
        with distributed.main_process_first():  # others look for a checkpoint in it: not while it is made
            checkpoints.open_folder(place, _learnt_from(settings))
    looks = settings.checkpoint_seconds, settings.dev_checks, settings.select, settings.patience
    config = LoopConfig(rates, rising, *looks, compares=False)
    try:
        return Trainer(engine, schedule, config, dev, place, distributed, on_progress, stage, callbacks).run()
    except IsoglossError as error:  # the trainer's hints name settings of a recipe
        raise type(error)(str(error), hint=_without_recipe(error.hint)) from error
    finally:
        engine.close()


def schedule_of(tasks: Sequence[Task], settings: TaskSettings) -> TaskSchedule:
    """The steps of a training, before it begins; what does not fit the tasks is refused."""
    if not tasks or not all(len(task) for task in tasks):
        empty = next((task.name for task in tasks if not len(task)), "training")
        raise IsoglossError(f"{empty} has no examples", hint="name files that have some")
    for name, values in (("batches", settings.batches), ("weights", settings.weights)):
        if values and (len(values) != len(tasks) or min(values) <= 0):
            raise RecipeError(
                f"{name} = {list(values)} does not fit {amount(len(tasks), 'task')}", hint="one number above 0 for each"
            )
    batches = settings.batches or [settings.batch] * len(tasks)
    sizes = [len(task) for task in tasks]
    return TaskSchedule(
        sizes, batches, settings.seed, settings.epochs, settings.steps, settings.weights, together=settings.together
    )


def _learnt_from(settings: TaskSettings) -> dict[str, Any]:
    """The settings that the trained weights depend on."""
    return {name: value for name, value in as_dict(settings).items() if name not in NOT_LEARNT_FROM}


def _training_name(model: Student | nn.Module, tasks: Sequence[Task], settings: TaskSettings, dev: Dev | None, key: str) -> str:
    """Names everything that the trained weights depend on."""
    sizes = [[task.name, len(task)] for task in tasks]
    start = model.fingerprint if isinstance(model, Student) else weights_key(model)
    return content_hash(start, key, canonical_json([_learnt_from(settings), sizes, 0 if dev is None else len(dev)]))[:16]


def _without_recipe(hint: str) -> str:
    """The trainer's advice, for training that has no recipe."""
    named = {"training.learning_rate": "the learning rate", "training.warmup": "the warm-up", "training.clip_norm": "clip_norm"}
    for name, words in named.items():
        hint = hint.replace(name, words)
    return hint

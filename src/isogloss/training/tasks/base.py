"""Training by tasks: supervised losses over examples of any kind, through the same loop as distillation.

A `Task` knows its examples and what a batch of them costs; it may have a head, weights that are trained beside the
student's and not exported with it (a classifier, a decoder). `TaskSchedule` says which examples each step sees,
`TaskEngine` takes the steps, `run_tasks` puts both into `loop.Trainer`, which keeps checkpoints, chooses the best weights
and watches the losses. `siamese` has tasks over pairs of sentences; `distill` is the training that follows a teacher.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.config import Optimizer, Precision, Schedule, Settings, as_dict, setting
from isogloss.errors import IsoglossError, RecipeError
from isogloss.models.encoder import weights_key
from isogloss.models.student import Student
from isogloss.models.token_store import Ids
from isogloss.progress import OnProgress, silent
from isogloss.storage import canonical_json, content_hash
from isogloss.training import checkpoints
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, TokenCount
from isogloss.training.engines.eager import only_trained, random_state, set_random_state
from isogloss.training.engines.token_table import TableRows, beside, clip_and_move
from isogloss.training.schedules import rate_at, warmup_steps
from isogloss.training.tasks.schedule import TaskSchedule as TaskSchedule
from isogloss.training.trainer import Dev, LoopConfig, Trainer, TrainingSummary
from isogloss.types import IntArray


class Task(Protocol):
    """One supervised loss over examples that are known by their numbers.

    `prepare` runs in another thread, ahead of time, and must draw no random numbers of torch; `loss` may, since the state
    of those is part of a checkpoint.
    """

    @property
    def name(self) -> str:
        """What its loss is called on the screen and in metrics."""
        ...

    @property
    def head(self) -> nn.Module | None:
        """Weights beside the student's: trained, kept in checkpoints, not exported. Those it shares count once."""
        ...

    def __len__(self) -> int:
        """Number of examples."""
        ...

    def prepare(self, chosen: IntArray) -> Any:  # noqa: ANN401 - the task's own form
        """Examples by number, as arrays or tensors on the CPU."""
        ...

    def loss(self, prepared: Any) -> Tensor:  # noqa: ANN401
        """The mea loss of the batch, differentiable."""
        ...

    def load(self, prepared: Any) -> TokenCount:  # noqa: ANN401
        """The batch's tokens, without filling and with it."""
        ...


@runtime_checkable
class ReadsRows(Protocol):
    """A task whose batches read the student's token table only where their tokens are."""

    def tokens_read(self, prepared: Any) -> tuple[Ids, int]:  # noqa: ANN401
        """The ids of all tokens of a batch, as often as they are there, and the one that fills."""
        ...


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


class TaskEngine:
    """Trains a student, or any module, by its tasks; see `engine.Engine` for what each method promises.

    `model` is where the tasks' gradients go. `weights` are factors of the tasks' losses:

        L = Σ_t w_t · L_t        over the tasks that a step has a batch of
    """

    reads_every = 1

    def __init__(
        self,
        model: Student | nn.Module,
        tasks: Sequence[Task],
        schedule: TaskSchedule,
        weights: Sequence[float],
        descent: OptimizerConfig,
        *,
        bf16: bool = False,
        dropout: bool = True,
    ) -> None:
        self.tasks, self.schedule, self.task_weights, self.descent = list(tasks), schedule, list(weights), descent
        self.bf16, self.dropout, self.step_at = bf16, dropout, 0
        self.modules, self.parameters = self._trained(model)
        self.device = next(iter(self.parameters.values())).device
        self._losses: list[dict[str, float]] = []
        few = all(isinstance(task, ReadsRows) for task in self.tasks)
        self.table = TableRows.of(model, self.parameters, descent) if few and isinstance(model, Student) else None
        self.optimizer = beside(self.table, self.parameters, descent)

    @property
    def kind(self) -> str:
        """Names the form of its state."""
        return "tasks" if self.table is None else "tasks-rows"

    def _trained(self, model: Student | nn.Module) -> tuple[list[nn.Module], dict[str, nn.Parameter]]:
        """The modules that training sees, and their parameters by name, each once."""
        if isinstance(model, Student):
            modules: list[nn.Module] = [model.model]
            named = only_trained(model.model, dict(model.trained_parameters(None)))
        else:
            modules, named = [model], {name: one for name, one in model.named_parameters() if one.requires_grad}
        known = {id(one) for module in modules for one in module.parameters()}
        for number, task in enumerate(self.tasks):
            head = task.head
            if head is None or any(head is one for one in modules):
                continue
            modules.append(head)
            for name, one in head.named_parameters():
                if id(one) not in known:
                    known.add(id(one))
                    named[f"head.{number}.{task.name}.{name}"] = one
        return modules, named

    def prepare(self, chosen: IntArray) -> list[tuple[int, Any]]:
        """Each task's examples in its own form."""
        return [(task, self.tasks[task].prepare(numbers)) for task, numbers in self.schedule.parts(chosen)]

    def step(self, prepared: list[tuple[int, Any]]) -> TokenCount:
        """Lose and go back, task by task; then move."""
        self._make_ready(prepared)
        for module in self.modules:
            module.train(self.dropout)
        for parameter in self.parameters.values():
            parameter.grad = None
        values, tokens, computed = {"loss": 0.0}, 0, 0
        for number, batch in prepared:
            task = self.tasks[number]
            with torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext():
                loss = self.task_weights[number] * task.loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            cost, load = float(loss.detach()), task.load(batch)
            values[task.name] = values.get(task.name, 0.0) + cost
            values["loss"] += cost
            tokens, computed = tokens + load.tokens, computed + load.computed
        # What is not finite changes nothing; the loop reads it and stops.
        gradients = {name: one.grad for name, one in self.parameters.items() if one.grad is not None}
        finite = math.isfinite(values["loss"])
        moved = clip_and_move(gradients, self.table, self.optimizer, self.descent, self.step_at) if finite else math.nan
        values["gradient_norm"] = moved
        self.step_at += 1
        self._losses.append(values)
        return TokenCount(tokens, computed)

    def _make_ready(self, prepared: list[tuple[int, Any]]) -> None:
        """Bring the rows of the table that this step reads up to date."""
        if self.table is None:
            return
        for number, batch in prepared:
            task = self.tasks[number]
            assert isinstance(task, ReadsRows)
            self.table.ready(*task.tokens_read(batch), self.step_at)

    def losses(self) -> list[dict[str, float]]:
        """What every step since the last call cost, task by task."""
        read, self._losses = self._losses, []
        return read

    def settle(self) -> None:
        """Bring the table up to date."""
        if self.table is not None:
            self.table.settle(self.step_at)

    def sound(self) -> bool:
        """Whether every weight is finite."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters.values())

    def state(self) -> dict[str, Any]:
        """Weights, optimizer and the random numbers to come."""
        parameters = {name: parameter.detach() for name, parameter in self.parameters.items()}
        return {
            "step": self.step_at,
            "parameters": parameters,
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "rows": None if self.table is None else self.table.adam.state(),
            "random": random_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.step_at = int(state["step"])
        self.take(state["parameters"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.table is not None:
            self.table.adam.load(state["rows"])
        set_random_state(state["random"])

    def weights(self) -> dict[str, Any]:
        """The trained parameters, heads included."""
        self.settle()
        return {name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()}

    def take(self, weights: dict[str, Any]) -> None:
        """Put parameters in place."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        if self.table is not None:
            self.table.taken(self.step_at)

    def close(self) -> None:
        """Leave everything ready to be used."""
        self.settle()
        if self.table is not None:
            self.table.close()
        for parameter in self.parameters.values():
            parameter.grad = None
        for module in self.modules:
            module.eval()


def run_tasks(
    model: Student | nn.Module,
    tasks: Sequence[Task],
    settings: TaskSettings,
    dev: Dev | None = None,
    folder: Path | None = None,
    on_progress: OnProgress = silent,
    stage: str = "train",
    key: str = "",
) -> TrainingSummary:
    """Train `model` (and the tasks' heads) in place; with `dev`, it ends with the weights that did best there.

    With `folder`, checkpoints are kept there under a name made from the weights it starts from, the settings, the tasks'
    names and sizes, and `key`, which should name the examples and the dev set; the same call goes on from the last one.
    """
    if Distributed.here().size > 1:
        raise IsoglossError("training by tasks runs in one process", hint="start it without isogloss launch or torchrun")
    schedule = schedule_of(tasks, settings)
    rising, total = warmup_steps(settings.warmup, schedule.steps), schedule.steps
    rates = [rate_at(step, total, settings.learning_rate, rising, settings.schedule) for step in range(total)]
    descent = OptimizerConfig(rates, settings.weight_decay, settings.clip_norm, settings.optimizer)
    of_loss = settings.weights if settings.together and settings.weights else [1.0] * len(tasks)
    torch.manual_seed(settings.seed)
    device = model.model.device.type if isinstance(model, Student) else next(model.parameters()).device.type
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and device == "cuda")
    engine = TaskEngine(model, tasks, schedule, of_loss, descent, bf16=bf16, dropout=settings.dropout)
    place = None if folder is None else _checkpoint_folder(folder, engine.kind, model, tasks, settings, dev, key)
    plan = LoopConfig(
        rates, rising, settings.checkpoint_seconds, settings.dev_checks, settings.select, settings.patience, compares=False
    )
    try:
        return Trainer(engine, schedule, plan, dev, place, Distributed(), on_progress, stage).run()
    except IsoglossError as error:  # the loop speaks of recipes
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


def _checkpoint_folder(
    folder: Path,
    kind: str,
    model: Student | nn.Module,
    tasks: Sequence[Task],
    settings: TaskSettings,
    dev: Dev | None,
    key: str,
) -> Path:
    """Where this training's checkpoints are, named after all that its weights depend on."""
    told = as_dict(settings)
    del told["checkpoint_seconds"]  # when it is kept changes nothing
    sizes = [[task.name, len(task)] for task in tasks]
    start = model.fingerprint if isinstance(model, Student) else weights_key(model)
    named = content_hash(start, key, canonical_json([told, sizes, 0 if dev is None else len(dev)]))
    place = checkpoints.folder_of(folder, named[:16], kind)
    checkpoints.open_folder(place, told)
    return place


def _without_recipe(hint: str) -> str:
    """What the loop advises, for training that has no recipe."""
    named = {"training.learning_rate": "the learning rate", "training.warmup": "the warm-up", "training.clip_norm": "clip_norm"}
    for name, words in named.items():
        hint = hint.replace(name, words)
    return hint

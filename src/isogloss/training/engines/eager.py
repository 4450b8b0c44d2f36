"""The engine that runs anywhere: any task, on any device, in one process or many.

Each process encodes the distinct sentences of its share of the batch, gathers the vectors of all processes, computes the loss
of the whole batch, and backpropagates through its own sentences. A model task runs the model on its share.

With `chunk_pairs` a batch larger than memory is encoded twice (GradCache, Gao et al. 2021): once without gradients for the
loss, then chunk by chunk with the loss's gradient; the sum is the gradient of the whole batch. With `accumulate` a batch is
computed in parts, and L = Σ_p |B_p| / |B| · L(B_p); losses that compare examples do so within a part.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.config import Engine as EngineName
from isogloss.config import TrainingSettings
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.student import Student
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, TokenCount, random_state, set_random_state
from isogloss.training.engines.precision import trains_in_bf16
from isogloss.training.engines.token_table import TableRows, clip_and_move, optimizer_of_others
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.protocol import ModelTask, SentenceBatch, SentenceTask, Task, named_losses
from isogloss.types import IntArray

READS_ON_GPU = 10  # reading a loss waits for the device


Remembered = Callable[[], tuple[SplitBody, Activations] | None]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How steps are computed, and by which engine.

    `chunk_pairs` is the number of pairs encoded at once (0: all), `accumulate` the number of parts of a batch. `split` is the
    body cut above its frozen layers; `remembered` returns their activations, and is first called in the first step. For each
    task, `batch_sizes` has the examples of a batch and `task_weights` the factor of its loss (default 1). `not_recorded` is a
    reason against CUDA graphs, as the end of a sentence.
    """

    chunk_pairs: int = 0
    bf16: bool = False
    dropout: bool = False
    split: SplitBody | None = None
    remembered: Remembered = lambda: None
    accumulate: int = 1
    engine: EngineName = "auto"
    batch_sizes: Sequence[int] = ()
    task_weights: Sequence[float] = ()
    not_recorded: str = ""

    @classmethod
    def of(cls, settings: TrainingSettings, model: Student | nn.Module, **others: Any) -> Self:  # noqa: ANN401 - other fields
        """By the settings of a training of a model, on the device where it is."""
        bf16 = trains_in_bf16(model, settings)
        return cls(
            settings.chunk_pairs,
            bf16,
            settings.dropout,
            accumulate=settings.accumulate,
            engine=settings.engine,
            **others,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A process's share of a part of a task's batch; `batch` is None if a model task has no example here."""

    number: int
    task: Task
    batch: Any
    examples: int
    whole: int  # examples of the part, over all processes
    share: float  # of the task's batch


class EagerEngine:
    """Trains a student, or any module, on the device where it is."""

    def __init__(
        self,
        model: Student | nn.Module,
        tasks: Sequence[Task],
        optimizer: OptimizerConfig,
        distributed: Distributed | None = None,
        config: EngineConfig | None = None,
    ) -> None:
        self.model, self.tasks, self.optimizer_config = model, list(tasks), optimizer
        self.distributed, self.config = distributed or Distributed(), config or EngineConfig()
        self.task_weights = list(self.config.task_weights) or [1.0] * len(self.tasks)
        self.offsets = task_offsets(tasks)
        self.step_at, self.seed = 0, torch.initial_seed()
        self.modules, self.parameters, self.head_of = self._trained()
        self.device = next(iter(self.parameters.values())).device
        self.reads_every = 1 if self.device.type == "cpu" else READS_ON_GPU
        self._losses: list[dict[str, Tensor]] = []
        shadows = {number: getattr(task, "shadow", None) for number, task in enumerate(self.tasks)}
        self.shadows: dict[int, MovingTeacher] = {number: shadow for number, shadow in shadows.items() if shadow is not None}
        self.table = self._table_rows()
        self.optimizer = optimizer_of_others(self.table, self.parameters, optimizer)
        shadowed = [value for shadow in self.shadows.values() for value in shadow.state_dict().values()]
        self.distributed.copy_from_main([*self.parameters.values(), *shadowed])

    @property
    def kind(self) -> str:
        """Names the form of its state."""
        return "eager" if self.table is None else "eager-rows"

    def _trained(self) -> tuple[list[nn.Module], dict[str, nn.Parameter], dict[str, set[int]]]:
        """The modules in training, their parameters by name, and the tasks of each parameter that is only in heads."""
        model = self.model
        if isinstance(model, Student):
            modules: list[nn.Module] = [model.model]
            named = only_trained(model.model, dict(model.trained_parameters(self.config.split)))
        else:
            modules, named = [model], {name: value for name, value in model.named_parameters() if value.requires_grad}
        known = {id(parameter): "" for module in modules for parameter in module.parameters()}
        head_of: dict[str, set[int]] = {}
        for number, task in enumerate(self.tasks):
            if task.head is None:
                continue
            if not any(task.head is module for module in modules):
                modules.append(task.head)
            for name, parameter in task.head.named_parameters():
                full_name = known.setdefault(id(parameter), f"head.{number}.{task.name}.{name}")
                if full_name:
                    named[full_name] = parameter
                    head_of.setdefault(full_name, set()).add(number)
        return modules, named, head_of

    def _table_rows(self) -> TableRows | None:
        """The token table under its own optimizer, if batches read it row by row and nothing else does.

        A moving teacher follows every row at every step, so no row may wait.
        """
        row_wise = self.config.split is None and not self.shadows and self.distributed.size == 1
        if not row_wise or not isinstance(self.model, Student) or any(isinstance(task, ModelTask) for task in self.tasks):
            return None
        return TableRows.of(self.model, self.parameters, self.optimizer_config)

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, chosen: IntArray) -> list[Part]:
        """What this process computes of the chosen examples; a batch of fewer examples than parts has fewer parts."""
        parts = []
        for number, examples in split_by_task(chosen, self.offsets):
            task = self.tasks[number]
            for whole in np.array_split(examples, min(self.config.accumulate, len(examples))):
                mine = self.distributed.share(whole)
                batch = None if isinstance(task, ModelTask) and not len(mine) else task.prepare(mine)
                parts.append(Part(number, task, batch, len(mine), len(whole), len(whole) / len(examples)))
        return parts

    def step(self, prepared: list[Part]) -> TokenCount:
        """Compute losses and gradients part by part, then move the weights."""
        self.config.remembered()  # before dropout is on
        if self.table is not None:
            for part in prepared:
                tokens = cast(SentenceTask, part.task).tokens
                self.table.ready(tokens.gather(part.batch.rows)[0], tokens.pad_id, self.step_at)
        for module in self.modules:
            set_training_mode(module, self.config.dropout)
        if self.config.dropout and self.distributed.size > 1:  # a checkpoint has the main process's state only
            torch.manual_seed(hash((self.seed, self.step_at, self.distributed.rank)) % 2**63)
        for parameter in self.parameters.values():
            parameter.grad = None
        values = self._backward_all(prepared)
        # On the CPU a loss that is not finite changes no weight. On a GPU the trainer notices later, without waiting here.
        finite = self.device.type != "cpu" or math.isfinite(values["loss"])
        values["gradient_norm"] = self._move({part.number for part in prepared}) if finite else torch.tensor(math.nan)
        if isinstance(self.model, Student):
            for shadow in self.shadows.values():
                shadow.follow(self.model, self.step_at)
        self.step_at += 1
        self._losses.append(values)
        return sum((self._count(part) for part in prepared if part.batch is not None), TokenCount(0, 0))

    def _count(self, part: Part) -> TokenCount:
        if isinstance(part.task, ModelTask):
            return part.task.count(part.batch)
        assert isinstance(self.model, Student)
        lengths = part.task.tokens.lengths_of(part.batch.rows)
        return TokenCount(int(lengths.sum()), self.model.tokens_computed(lengths))

    def _backward_all(self, parts: list[Part]) -> dict[str, Tensor]:
        """The losses of the step, with gradients left in the parameters."""
        values: dict[str, Tensor] = {}
        for part, share in zip(parts, self._shares(parts), strict=True):
            factor = self.task_weights[part.number]
            losses = {name: share * loss.detach() for name, loss in self._backward(part, factor * share).items()}
            if isinstance(part.task, ModelTask):
                self.distributed.add_up(list(losses.values()))
            losses["loss"] = factor * losses["loss"]
            values |= {name: values[name] + loss if name in values else loss for name, loss in losses.items()}
        return values

    def _shares(self, parts: list[Part]) -> list[float]:
        """What each part counts in its task's loss: its share of the examples, or of a model task's weight."""
        totals, weights = [0.0] * len(self.tasks), []
        for part in parts:
            weights.append(part.task.weight(part.batch) if isinstance(part.task, ModelTask) and part.batch is not None else 0.0)
            totals[part.number] += weights[-1]
        if self.distributed.size > 1 and any(isinstance(task, ModelTask) for task in self.tasks):
            summed = torch.tensor(totals, dtype=torch.float64, device=self.device)
            self.distributed.add_up([summed])
            totals = summed.tolist()
        return [
            weight / max(totals[part.number], 1e-9) if isinstance(part.task, ModelTask) else part.share
            for part, weight in zip(parts, weights, strict=True)
        ]

    def _backward(self, part: Part, scale: float) -> dict[str, Tensor]:
        """The losses of a part; adds `scale` times their gradient to the parameters'."""
        task, chunk = part.task, 2 * self.config.chunk_pairs
        if isinstance(task, ModelTask):
            if part.batch is None:
                return named_losses(task.name, torch.zeros((), device=self.device))
            with self._precision():
                losses = named_losses(task.name, task.loss(part.batch))
            (scale * losses["loss"]).backward()  # type: ignore[no-untyped-call]
            return losses
        rows = part.batch.rows
        if not chunk or len(rows) <= chunk:
            losses = self._losses_of(task, self._encode(task, rows), part)
            (scale * losses["loss"]).backward()  # type: ignore[no-untyped-call]
            return losses
        chunks = [rows[start : start + chunk] for start in range(0, len(rows), chunk)]
        states, encoded = [], []
        with torch.no_grad():
            for chunk_rows in chunks:
                states.append(random_state())
                encoded.append(self._encode(task, chunk_rows))
        vectors = torch.cat(encoded).requires_grad_()
        losses = self._losses_of(task, vectors, part)
        (scale * losses["loss"]).backward()  # type: ignore[no-untyped-call]
        assert vectors.grad is not None
        after = random_state()
        gradients = torch.split(vectors.grad, [len(chunk_rows) for chunk_rows in chunks])
        for chunk_rows, state, gradient in zip(chunks, states, gradients, strict=True):
            set_random_state(state)  # the same dropout as when the loss was computed
            torch.autograd.backward(self._encode(task, chunk_rows), gradient)
        set_random_state(after)
        return losses

    def _encode(self, task: SentenceTask, rows: IntArray) -> Tensor:
        assert isinstance(self.model, Student)
        if not len(rows):  # the last batch of an epoch may have fewer examples than there are processes
            return torch.zeros((0, self.model.dimension), device=self.device, requires_grad=True)
        with self._precision():
            return self.model.batch(task.tokens, rows, self.config.remembered()).float()

    def _precision(self) -> Any:  # noqa: ANN401 - a context
        return torch.autocast(self.device.type, torch.bfloat16) if self.config.bf16 else nullcontext()

    def _losses_of(self, task: SentenceTask, encoded: Tensor, part: Part) -> dict[str, Tensor]:
        """The losses of the whole part, from this process's vectors and those of the others."""
        batch: SentenceBatch = part.batch

        def gathered(mine: Tensor) -> Tensor:
            return self.distributed.gathered(mine, part.whole)

        vectors = {name: gathered(encoded[torch.from_numpy(at).to(self.device)]) for name, at in batch.at.items()}
        values = {name: gathered(on_device(value, self.device)) for name, value in batch.values.items()}
        if batch.shadow_rows is not None:
            with self._precision():
                shadow = self.shadows[part.number]
                seen = shadow.vectors(task.tokens, batch.shadow_rows) if part.examples else encoded.detach()[:0]
            vectors["shadow"] = gathered(seen)
        weight = gathered(torch.ones(part.examples, device=self.device))
        return named_losses(task.name, task.loss(vectors, values, weight))

    def _move(self, tasks: set[int]) -> Tensor:
        """Add up the gradients of all processes, clip them together and step; returns their norm before clipping.

        The head of a task that is not among `tasks` does not move.
        """
        if self.distributed.size > 1:
            for name, parameter in self.parameters.items():
                owners = self.head_of.get(name, tasks) & tasks
                if not owners:
                    continue
                # Other processes may have a gradient where this one has none. Heads over vectors have the whole one in each.
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                whole = name in self.head_of and not any(isinstance(self.tasks[owner], ModelTask) for owner in owners)
                parameter.grad = gradient / self.distributed.size if whole else gradient
        gradients = {name: parameter.grad for name, parameter in self.parameters.items() if parameter.grad is not None}
        self.distributed.add_up(list(gradients.values()))
        return clip_and_move(gradients, self.table, self.optimizer, self.optimizer_config, self.step_at)

    # ── between steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def losses(self) -> list[dict[str, float]]:
        """The losses of every step since the last call."""
        read, self._losses = self._losses, []
        return [{name: float(value) for name, value in values.items()} for values in read]

    def synchronize(self) -> None:
        """Bring the token table up to date."""
        if self.table is not None:
            self.table.synchronize(self.step_at)

    def is_finite(self) -> bool:
        """Whether every weight is finite."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters.values())

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizers, moving teachers and the state of random numbers."""
        return {
            "step": self.step_at,
            "parameters": {name: parameter.detach() for name, parameter in self.parameters.items()},
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "rows": None if self.table is None else self.table.adam.state_dict(),
            "shadows": [shadow.state_dict() for shadow in self.shadows.values()],
            "random": random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.step_at = int(state["step"])
        self.load_weights(state["parameters"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.table is not None:
            self.table.adam.load_state_dict(state["rows"])
        for shadow, kept in zip(self.shadows.values(), state["shadows"], strict=True):
            shadow.load_state_dict(kept)
        set_random_state(state["random"])

    def weights(self) -> dict[str, Any]:
        """The trained parameters, heads included."""
        self.synchronize()
        return {name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()}

    def load_weights(self, weights: dict[str, Any]) -> None:
        """Put parameters in place."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        if self.table is not None:
            self.table.replaced(self.step_at)

    def close(self) -> None:
        """Bring the table up to date and leave every module ready to be used."""
        self.synchronize()
        if self.table is not None:
            self.table.close()
        for parameter in self.parameters.values():
            parameter.grad = None
        for module in self.modules:
            module.eval()


def task_offsets(tasks: Sequence[Task]) -> IntArray:
    """The number of each task's first example, in numbers that run through all tasks, and the total."""
    return np.concatenate([[0], np.cumsum([len(task) for task in tasks])]).astype(np.int64)


def split_by_task(chosen: IntArray, offsets: IntArray) -> list[tuple[int, IntArray]]:
    """Examples task by task, as numbers within each task."""
    task_of = np.searchsorted(offsets, chosen, side="right") - 1
    return [(int(task), chosen[task_of == task] - offsets[task]) for task in np.unique(task_of)]


def on_device(value: Any, device: torch.device) -> Tensor:  # noqa: ANN401 - an array
    """An array as losses take it: float32 or int64."""
    tensor = torch.as_tensor(value).to(device)
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def set_training_mode(module: nn.Module, dropout: bool) -> None:
    """Turn dropout on or off. LSTMs without any stay in training mode: cuDNN computes gradients only there."""
    module.train(dropout)
    for part in module.modules():
        if isinstance(part, nn.RNNBase) and not part.dropout:
            part.train()


def only_trained(model: nn.Module, trained: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """Require gradients of what is trained and nothing else; a pooler contributes to no sentence vector."""
    trained = {name: parameter for name, parameter in trained.items() if ".pooler." not in f".{name}"}
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in trained.values():
        parameter.requires_grad_(True)
    return trained

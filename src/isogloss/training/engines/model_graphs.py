"""CUDA graphs for model tasks whose batches have fixed shapes: forward, backward, clipping and AdamW in one graph per shape.

An LSTM step is thousands of small launches; replayed, they cost nothing. Weights and states are those of the eager engine. With
`record=False` the same work runs operation by operation, on any device.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from isogloss.kernels.row_adamw import at_step
from isogloss.models.student import Student
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, TokenCount
from isogloss.training.engines.eager import EagerEngine, EngineConfig, set_training_mode, split_by_task
from isogloss.training.engines.graphs import TINY, Recorder
from isogloss.training.optimizer import choose, set_rate
from isogloss.training.tasks.protocol import FixedShapeTask
from isogloss.types import IntArray

FixedExamples = tuple[int, dict[str, Tensor], TokenCount]


class ModelGraphEngine(EagerEngine):
    """Trains a student, or any module, by tasks that take turns; `batch_sizes` are the examples of each task's batch."""

    def __init__(
        self,
        model: Student | nn.Module,
        tasks: Sequence[FixedShapeTask],
        optimizer: OptimizerConfig,
        batch_sizes: Sequence[int],
        config: EngineConfig | None = None,
        *,
        record: bool = True,
    ) -> None:
        super().__init__(model, tasks, optimizer, Distributed(), config)
        self.fixed_tasks, self.batch_sizes = list(tasks), list(batch_sizes)
        self.reads_every = 50
        self.recorder = Recorder(self.device, record)
        self.device_step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.rates = torch.tensor([*optimizer.rates, 0.0], dtype=torch.float32, device=self.device)
        self.rate = torch.zeros((), device=self.device)
        self.adamw = choose(optimizer.optimizer, self.parameters.items(), 0.0, optimizer.weight_decay, capturable=record)
        self.optimizer = self.adamw
        self._point_at_rate()

    @property
    def kind(self) -> str:
        """Names the form of its state."""
        return "graphs-model"

    def _point_at_rate(self) -> None:
        """Point the optimizer to the tensor that each recorded step writes the rate to."""
        if self.recorder.record:
            for group in self.adamw.param_groups:
                group["lr"] = self.rate

    def prepare(self, chosen: IntArray) -> FixedExamples:  # type: ignore[override]
        """The chosen examples, all of one task, in pinned memory."""
        ((number, examples),) = split_by_task(chosen, self.offsets)
        tensors, count = self.fixed_tasks[number].prepare_fixed(examples, self.batch_sizes[number])
        pinned = {name: value.pin_memory() if self.recorder.record else value for name, value in tensors.items()}
        return number, pinned, count

    def step(self, prepared: FixedExamples) -> TokenCount:  # type: ignore[override]
        """Take one step; its losses are read later, by `losses`."""
        number, tensors, count = prepared
        for module in self.modules:
            set_training_mode(module, self.config.dropout)
        key = number, tuple(value.shape for value in tensors.values())
        self.recorder.run(key, tensors, partial(self._work, self.fixed_tasks[number]))
        self.step_at += 1
        return count

    def _work(self, task: FixedShapeTask, inputs: dict[str, Tensor]) -> list[str]:
        with self._precision():
            loss = task.loss_fixed(inputs)
        parameters = list(self.parameters.values())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
            parameter.grad = gradient
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if self.optimizer_config.clip_norm:
            torch._foreach_mul_(gradients, (self.optimizer_config.clip_norm / (norm + TINY)).clamp(max=1.0))
        self.rate.copy_(at_step(self.rates, self.device_step))
        if not self.recorder.record:
            set_rate(self.adamw, float(self.rate))
        self.adamw.step()
        names = self.recorder.log.write({task.name: loss, "loss": loss, "gradient_norm": norm}, self.device_step)
        self.device_step += 1
        return names

    def losses(self) -> list[dict[str, float]]:
        """The losses of every step since the last call; waits for the device."""
        return self.recorder.log.read(self.step_at)

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue from a state."""
        super().load_state_dict(state)
        self.device_step.fill_(self.step_at)
        self.recorder.log.read_at = self.step_at
        self._point_at_rate()

    def close(self) -> None:
        """Free the graphs and make every module ready for use."""
        self.recorder.steps.clear()
        super().close()

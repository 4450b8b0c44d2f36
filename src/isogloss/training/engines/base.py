"""What the trainer asks of an engine: take steps, report losses, and keep a state that training can resume from.

`EagerEngine` runs any task anywhere, in any number of processes. `GraphEngine` and `ModelGraphEngine` record whole steps as
CUDA graphs, for sentence tasks and for model tasks of fixed shapes. All give the same weights up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from isogloss.config import Optimizer, TrainingSettings
from isogloss.training.schedules import learning_rates
from isogloss.types import IntArray


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """How weights move: the learning rate of every step, weight decay, clipping, and the optimizer's name."""

    rates: Sequence[float]
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    optimizer: Optimizer = "adamw"
    warmup_steps: int = 0

    @classmethod
    def of(cls, settings: TrainingSettings, steps: int) -> Self:
        """For a training of this many steps."""
        rates, warmup = learning_rates(settings.learning_rate, steps, settings.warmup, settings.schedule)
        return cls(rates, settings.weight_decay, settings.clip_norm, settings.optimizer, warmup)


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The size of a step's work: tokens without padding, and with it."""

    tokens: int
    computed: int

    def __add__(self, other: "TokenCount") -> "TokenCount":
        return TokenCount(self.tokens + other.tokens, self.computed + other.computed)


class Engine(Protocol):
    """Owns the model's weights from its making to `close`."""

    reads_every: int  # steps between two readings of the losses

    @property
    def kind(self) -> str:
        """Names the form of its state, which no other kind can load."""

    def prepare(self, chosen: IntArray) -> Any:  # noqa: ANN401 - the engine's own form
        """The examples of a step in the form `step` takes; runs in another thread, ahead of time."""

    def step(self, prepared: Any) -> TokenCount:  # noqa: ANN401
        """Take one optimizer step."""

    def losses(self) -> list[dict[str, float]]:
        """Each loss by name, "loss" and "gradient_norm", for every step since the last call; waits for the device."""

    def synchronize(self) -> None:
        """Bring every weight up to date with the last step, before anything but a step reads them."""

    def is_finite(self) -> bool:
        """Whether every weight is finite."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""

    def weights(self) -> dict[str, Any]:
        """The trained weights as they would be saved now."""

    def load_weights(self, weights: dict[str, Any]) -> None:
        """Put weights that `weights` returned in place."""

    def close(self) -> None:
        """Give the model its weights, in single precision, ready to be saved."""


def random_state() -> list[Tensor]:
    """The state of torch's random numbers, on the CPU and on the GPU."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if torch.cuda.is_available() else states


def set_random_state(states: list[Tensor]) -> None:
    """Continue random numbers from a state."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and torch.cuda.is_available():
        torch.cuda.set_rng_state(states[1])

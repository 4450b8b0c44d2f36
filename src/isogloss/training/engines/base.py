"""What the loop asks of an engine: take steps, say what they cost, and keep a state that can be taken up again.

`plain` runs anywhere, one operation after another: the CPU, several processes, any loss. `captured` records whole
steps as CUDA graphs. Both give the same weights up to rounding, and know one list of sentences, whose vectors they can be asked
for. `tasks.TaskEngine` trains by tasks, each of which has sentences of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """How weights move: the learning rate of every step to come, decay, clipping, and by which rule."""

    rates: Sequence[float]
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    optimizer: str = "adamw"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """What steps are made from: tokens of every sentence, pairs as rows, teacher rows, and mined negatives if there are some.

    `teacher` has a row for each source sentence, or is None where no loss follows a fixed teacher. `negatives` has,
    for each pair, the numbers of pairs whose translations are near and wrong.
    """

    tokens: TokenStore
    pairs: PairRows
    teacher: NDArray[np.float16] | None
    negatives: IntArray | None = None


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The size of a step's work: tokens without filling, and with it."""

    tokens: int
    computed: int


class Engine(Protocol):
    """Owns the student's weights from its making to `close`."""

    reads_every: int  # steps between two readings of the losses that cost little

    @property
    def kind(self) -> str:
        """Names the form of its state: what one kind keeps, another cannot take up."""
        ...

    def prepare(self, chosen: IntArray) -> Any:  # noqa: ANN401 - the engine's own form
        """The pairs of a step in the form `step` takes; runs in another thread, ahead of time."""
        ...

    def step(self, prepared: Any) -> TokenCount:  # noqa: ANN401
        """Take one optimizer step."""
        ...

    def losses(self) -> list[dict[str, float]]:
        """Each loss's value, "loss" and "gradient_norm", for every step since this was last asked."""
        ...

    def settle(self) -> None:
        """Let every weight be what it is after the last step, before anything but a step reads them."""
        ...

    def sound(self) -> bool:
        """Whether every weight is finite."""
        ...

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...

    def weights(self) -> dict[str, Any]:
        """What the student would be if training ended here."""
        ...

    def take(self, weights: dict[str, Any]) -> None:
        """Make the student what it was when `weights` gave this."""
        ...

    def close(self) -> None:
        """Give the student its weights, in single precision, ready to be saved."""
        ...


class SentenceEngine(Engine, Protocol):
    """An engine over one list of sentences (`TrainingInputs`), which says where the student puts them."""

    def vectors(self, rows: IntArray) -> FloatArray:
        """The student's vectors of some sentences, as it is now."""
        ...

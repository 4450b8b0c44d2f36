"""What a task is: examples known by number, how a batch of them is prepared, and what the batch costs.

There are two kinds; engines tell them apart by their methods:

- a `SentenceTask` compares sentence vectors (distill, rank, nli, sts, answers). The engine owns the encoding: it encodes each
  distinct sentence of a batch once, gathers vectors over processes, and hands the task plain tensors;
- a `ModelTask` runs the model itself (masked language modeling, translation with a decoder, the cross-encoder). One that
  also is a `FixedShapeTask` can be recorded as CUDA graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from isogloss.models.token_store import TokenStore
from isogloss.training.engines.base import TokenCount
from isogloss.types import IntArray

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceBatch:
    """Examples of a sentence task; row j of every array in `at` and `values` belongs to example j.

    `rows` are the distinct sentences to encode, as rows of the task's tokens. `at` says for each side of an example where its
    sentence is among them (examples, or examples × k). `values` are labels, scores, text numbers, teacher vectors.
    `shadow_rows` are sentences that a moving teacher encodes, one per example.
    """

    rows: IntArray
    at: dict[str, IntArray]
    values: dict[str, NDArray[Any]]
    shadow_rows: IntArray | None = None

    @classmethod
    def of(
        cls, sides: Mapping[str, IntArray], values: Mapping[str, NDArray[Any]], shadow_rows: IntArray | None = None
    ) -> "SentenceBatch":
        """From the sentence of each side of each example; one that several examples share is encoded once."""
        flat = np.concatenate([np.asarray(rows, dtype=np.int64).ravel() for rows in sides.values()])
        rows, places = np.unique(flat, return_inverse=True)
        cuts = np.cumsum([rows.size for rows in sides.values()])[:-1]
        at = {name: part.reshape(sides[name].shape) for name, part in zip(sides, np.split(places, cuts), strict=True)}
        return cls(rows, at, dict(values), shadow_rows)


class AnyTask(Protocol):
    """What both kinds of tasks have."""

    @property
    def name(self) -> str:
        """For metrics and messages."""

    @property
    def head(self) -> nn.Module | None:
        """Weights trained beside the model's, kept in checkpoints and not exported. Weights it shares are trained once."""

    def __len__(self) -> int: ...

    def prepare(self, chosen: IntArray) -> Any:  # noqa: ANN401 - a SentenceBatch, or the task's own form
        """A batch of examples by number, on the CPU. Runs in another thread, ahead of time: draw no torch random numbers."""


class SentenceTask(AnyTask, Protocol):
    """A loss over sentence vectors."""

    @property
    def tokens(self) -> TokenStore:
        """The sentences that batches refer to."""

    def prepare(self, chosen: IntArray) -> SentenceBatch:
        """The chosen examples; `chosen` may be empty."""

    def loss(self, vectors: Tensors, values: Tensors, weight: Tensor) -> Tensor | dict[str, Tensor]:
        """The mean loss over examples, or several by name with their sum as "loss".

        `vectors` has the vectors of each side in `SentenceBatch.at`, `values` those of the batch on the device, `weight` is 1
        for an example and 0 for padding. A CUDA graph may hold it: no shape or branch may depend on a tensor's value.
        """


@runtime_checkable
class ModelTask(AnyTask, Protocol):
    """A loss that runs the model itself."""

    def loss(self, prepared: Any) -> Tensor:  # noqa: ANN401
        """The mean loss of the batch, differentiable. It may draw random numbers: their state is in checkpoints."""

    def count(self, prepared: Any) -> TokenCount:  # noqa: ANN401
        """The batch's tokens, without padding and with it."""

    def weight(self, prepared: Any) -> float:  # noqa: ANN401
        """How many things the mean is over: what a process's loss counts by among those of several processes."""


@runtime_checkable
class FixedShapeTask(ModelTask, Protocol):
    """A model task whose batches can be laid out in a few fixed shapes."""

    def prepare_fixed(self, chosen: IntArray, examples: int) -> tuple[dict[str, Tensor], TokenCount]:
        """A batch padded to `examples` and to round lengths, and its tokens."""

    def loss_fixed(self, tensors: Tensors) -> Tensor:
        """The loss of `prepare_fixed`'s tensors on the device; no shape or branch depends on a value."""


Task = SentenceTask | ModelTask


def named_losses(name: str, loss: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    """A task's losses by name: one that is not named has the task's name."""
    return loss if isinstance(loss, dict) else {name: loss, "loss": loss}

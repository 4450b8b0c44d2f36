"""The token table of a student in training: a batch reads few of its rows, so only those are updated (`RowAdamW`).

An engine calls `ready` with the tokens that a step will read, `clip_and_move` when gradients are computed, and `synchronize`
before anything but a step reads the table.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isogloss.kernels.row_adamw import RowAdamW
from isogloss.models.student import Student
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.optimizer import choose, set_rate


class TableRows:
    """A table with an optimizer of its own; its gradient is sparse until `close`."""

    def __init__(self, name: str, home: nn.Embedding | nn.EmbeddingBag, config: OptimizerConfig) -> None:
        self.name, self.home = name, home
        self.adam = RowAdamW(home.weight.data, config.rates, config.weight_decay)
        home.sparse = True  # its gradient then has only the rows of the batch

    @classmethod
    def of(cls, student: Student, parameters: Mapping[str, nn.Parameter], config: OptimizerConfig) -> "TableRows | None":
        """The student's table, if AdamW trains it and only one lookup reads it; otherwise None."""
        if config.optimizer != "adamw":
            return None
        table = student.table
        name = next((name for name, parameter in parameters.items() if parameter is table), "")
        kinds = (nn.Embedding, nn.EmbeddingBag)
        homes = [module for module in student.model.modules() if isinstance(module, kinds) and module.weight is table]
        if not name or len(homes) != 1 or (isinstance(homes[0], nn.Embedding) and homes[0].max_norm is not None):
            return None
        return cls(name, homes[0], config)

    def ready(self, ids: NDArray[Any], pad_id: int, step: int) -> None:
        """Bring the rows of these tokens, and of padding, up to date with `step`."""
        used = torch.from_numpy(np.unique(np.append(ids, pad_id)).astype(np.int64)).to(self.home.weight.device)
        self.adam.refresh(used, self._at(step))

    def move(self, gradient: Tensor, step: int) -> None:
        """Take step number `step + 1` with a coalesced gradient."""
        self.adam.move(gradient.indices()[0], gradient.values(), self._at(step))

    def synchronize(self, step: int) -> None:
        """Bring the whole table up to date with `step`."""
        self.adam.catch_up(self._at(step))

    def replaced(self, step: int) -> None:
        """Note that the table was replaced by that of `step`: no update is due."""
        self.adam.at.fill_(step)

    def close(self) -> None:
        """Give the lookup dense gradients again."""
        self.home.sparse = False

    def _at(self, step: int) -> Tensor:
        return torch.tensor(step, device=self.home.weight.device)


def optimizer_of_others(
    table: TableRows | None, parameters: Mapping[str, nn.Parameter], config: OptimizerConfig
) -> torch.optim.Optimizer | None:
    """The optimizer of all other parameters; None for a static student, which has none."""
    rest = [(name, parameter) for name, parameter in parameters.items() if table is None or name != table.name]
    if table is not None and not rest:
        return None
    return choose(config.optimizer, rest, config.rates[0] if config.rates else 0.0, config.weight_decay)


def clip_and_move(
    gradients: dict[str, Tensor],
    table: TableRows | None,
    optimizer: torch.optim.Optimizer | None,
    config: OptimizerConfig,
    step: int,
) -> Tensor:
    """Clip the gradients together and take the step; returns their norm before clipping. `optimizer` moves all but `table`."""
    dense = dict(gradients)
    sparse = dense.pop(table.name, None) if table is not None else None
    touched = None if sparse is None else sparse.coalesce()
    whole = [*dense.values(), *([] if touched is None else [touched.values()])]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(whole)))
    if config.clip_norm:
        torch._foreach_mul_(whole, (config.clip_norm / (norm + 1e-6)).clamp(max=1.0))
    if optimizer is not None:
        set_rate(optimizer, config.rates[step])
        optimizer.step()
    if table is not None and touched is not None:
        table.move(touched, step)
    return norm

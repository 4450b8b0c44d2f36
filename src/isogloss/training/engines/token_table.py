"""The token table of a student in training: a batch reads few of its rows, so only those are moved (`rows.RowAdamW`).

An engine asks `TableRows.of` whether its table can be trained so, calls `ready` with the tokens that a step will read,
`clip_and_move` when the gradients are there, and `settle` before anything but a step reads the table.
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
    """A table under its own optimizer, its gradient sparse from here to `close`."""

    def __init__(self, name: str, home: nn.Embedding | nn.EmbeddingBag, descent: OptimizerConfig) -> None:
        self.name, self.home = name, home
        self.adam = RowAdamW(home.weight.data, descent.rates, descent.weight_decay)
        home.sparse = True  # its gradient then has the rows of the batch alone

    @classmethod
    def of(cls, student: Student, parameters: Mapping[str, nn.Parameter], descent: OptimizerConfig) -> "TableRows | None":
        """The student's table, where it is trained, by AdamW, and one lookup is all that reads it; otherwise None."""
        if descent.optimizer != "adamw":
            return None
        table = student.table
        name = next((name for name, one in parameters.items() if one is table), "")
        kinds = (nn.Embedding, nn.EmbeddingBag)
        homes = [one for one in student.model.modules() if isinstance(one, kinds) and one.weight is table]
        if not name or len(homes) != 1 or (isinstance(homes[0], nn.Embedding) and homes[0].max_norm is not None):
            return None
        return cls(name, homes[0], descent)

    def ready(self, ids: NDArray[Any], pad_id: int, step: int) -> None:
        """Bring the rows of these tokens to `step`; padding is read too, and some bodies have a gradient for it, of zeros."""
        used = torch.from_numpy(np.unique(np.append(ids, pad_id)).astype(np.int64)).to(self.home.weight.device)
        self.adam.refresh(used, self._at(step))

    def move(self, gradient: Tensor, step: int) -> None:
        """Take step number `step + 1` with a coalesced gradient."""
        self.adam.move(gradient.indices()[0], gradient.values(), self._at(step))

    def settle(self, step: int) -> None:
        """Bring the whole table to `step`."""
        self.adam.catch_up(self._at(step))

    def taken(self, step: int) -> None:
        """The table was replaced by one that is as it should be at `step`: nothing is due."""
        self.adam.at.fill_(step)

    def close(self) -> None:
        """Leave the lookup as it was found."""
        self.home.sparse = False

    def _at(self, step: int) -> Tensor:
        return torch.tensor(step, device=self.home.weight.device)


def beside(
    table: TableRows | None, parameters: Mapping[str, nn.Parameter], descent: OptimizerConfig
) -> torch.optim.Optimizer | None:
    """What moves all the rest; a static student is its table and nothing else."""
    rest = [(name, one) for name, one in parameters.items() if table is None or name != table.name]
    if table is not None and not rest:
        return None
    return choose(descent.optimizer, rest, descent.rates[0] if descent.rates else 0.0, descent.weight_decay)


def clip_and_move(
    gradients: dict[str, Tensor],
    table: TableRows | None,
    optimizer: torch.optim.Optimizer | None,
    descent: OptimizerConfig,
    step: int,
) -> float:
    """Clip the gradients together and take the step; returns their norm before clipping. `optimizer` moves all but `table`."""
    dense = dict(gradients)
    sparse = dense.pop(table.name, None) if table is not None else None
    touched = None if sparse is None else sparse.coalesce()
    whole = [*dense.values(), *([] if touched is None else [touched.values()])]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(whole)))
    if descent.clip_norm:
        torch._foreach_mul_(whole, (descent.clip_norm / (norm + 1e-6)).clamp(max=1.0))
    if optimizer is not None:
        set_rate(optimizer, descent.rates[step])
        optimizer.step()
    if table is not None and touched is not None:
        table.move(touched, step)
    return float(norm)

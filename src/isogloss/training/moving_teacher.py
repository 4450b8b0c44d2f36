"""The teacher of Ham & Kim (2021): a copy of the student that follows it slowly and embeds the source sentences of each step.

Its weights start as the student's own and move by ξ ← τξ + (1 − τ)θ (`losses/moving_teacher.py`), in single precision.
"""

import copy

import numpy as np
import torch
from torch import Tensor

from isogloss.losses.moving_teacher import follow_, tau_at
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.types import IntArray


class MovingTeacher:
    """A slow copy of a student; τ rises from `base` to 1 over `total` steps."""

    def __init__(self, student: Student, total: int, base: float) -> None:
        self.shadow = copy.copy(student)
        self.shadow.model = copy.deepcopy(student.model).float().eval()
        for parameter in self.shadow.model.parameters():
            parameter.requires_grad_(False)
        self.total, self.base = total, base

    def vectors(self, tokens: TokenStore, rows: IntArray) -> Tensor:
        """Vectors of the source sentences, each distinct one encoded once; no gradient."""
        distinct, places = np.unique(rows, return_inverse=True)
        with torch.no_grad():
            found = self.shadow.batch(tokens, distinct, None).float()
        return found[torch.from_numpy(places).to(found.device)]

    def follow(self, student: Student, step: int) -> None:
        """Move towards the student after step number `step` (from 0)."""
        mine = list(self.shadow.model.parameters())
        follow_(mine, [parameter.detach() for parameter in student.model.parameters()], tau_at(step, self.total, self.base))

    def state_dict(self) -> dict[str, Tensor]:
        """Its weights."""
        return {name: parameter.detach() for name, parameter in self.shadow.model.named_parameters()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Load weights."""
        with torch.no_grad():
            for name, parameter in self.shadow.model.named_parameters():
                parameter.copy_(state[name])

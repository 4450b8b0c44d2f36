"""The teacher of Ham & Kim (2021): a copy of the student that follows it slowly, and embeds the pivot sentences in the step.

Its weights begin as the student's own, after the monolingual stage, and move by ξ ← τξ + (1 − τ)θ (`losses/
moving_teacher.py`), in single precision whatever the student computes in.
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
    """A student's slow shadow, over `total` steps from a share `base` that it keeps of itself."""

    def __init__(self, student: Student, total: int, base: float) -> None:
        self.shadow = copy.copy(student)
        self.shadow.model = copy.deepcopy(student.model).float().eval()
        for parameter in self.shadow.model.parameters():
            parameter.requires_grad_(False)
        self.total, self.base = total, base

    def vectors(self, tokens: TokenStore, rows: IntArray) -> Tensor:
        """Vectors of the pivot sentences, each distinct one encoded once; no gradient."""
        distinct, places = np.unique(rows, return_inverse=True)
        with torch.no_grad():
            found = self.shadow.batch(tokens, distinct, None).float()
        return found[torch.from_numpy(places).to(found.device)]

    def follow(self, student: Student, step: int) -> None:
        """Move after step number `step` (from 0)."""
        mine = list(self.shadow.model.parameters())
        follow_(mine, [one.detach() for one in student.model.parameters()], tau_at(step, self.total, self.base))

    def state_dict(self) -> dict[str, Tensor]:
        """Its weights."""
        return {name: one.detach() for name, one in self.shadow.model.named_parameters()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put weights in place."""
        with torch.no_grad():
            for name, parameter in self.shadow.model.named_parameters():
                parameter.copy_(state[name])

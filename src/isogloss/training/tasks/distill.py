"""Distillation as a task: pairs of sentences, and a weighted sum of the losses in `losses/`.

What a loss needs of a teacher comes with the batch: vectors of a fixed teacher by row, or those of a moving one (`shadow`),
which the engine computes in the step. `rank.translation_ranking` is the same task with the ranking loss alone.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.protocol import SentenceBatch, Tensors
from isogloss.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """Tokens of every sentence, pairs as rows of them, teacher vectors, and mined hard negatives.

    `teacher` has a row for each source sentence, or is None where no loss uses a fixed teacher. `negatives` has, for each
    pair, the numbers of other pairs whose translations are near and wrong. `bank` has the teacher vectors of `bank_similarity`.
    """

    tokens: TokenStore
    pairs: PairRows
    teacher: NDArray[np.float16] | None = None
    negatives: IntArray | None = None
    bank: FloatArray | None = None


class DistillTask:
    """The losses of `CombinedLoss` over pairs; row numbers tell which texts of a batch are the same."""

    head = None

    def __init__(
        self,
        inputs: TrainingInputs,
        losses: CombinedLoss,
        shadow: MovingTeacher | None = None,
        name: str = "distill",
        device: torch.device | str = "cpu",
    ) -> None:
        self.inputs, self.losses, self.shadow, self.name = inputs, losses, shadow, name
        self.tokens = inputs.tokens
        # On the device from the start: recorded steps cannot copy it there.
        self.bank = None if inputs.bank is None else torch.from_numpy(inputs.bank).to(device)
        self.shows_sources = losses.weights.keys() != {"moving_teacher"}  # Ham & Kim's student sees translations only

    def __len__(self) -> int:
        return len(self.inputs.pairs)

    def prepare(self, chosen: IntArray) -> SentenceBatch:
        """The chosen pairs; one that was drawn twice counts twice, and is encoded once."""
        pairs, teacher, negatives = self.inputs.pairs, self.inputs.teacher, self.inputs.negatives
        chosen = np.asarray(chosen)
        source, target = np.asarray(pairs.source[chosen]), np.asarray(pairs.target[chosen])
        sides = {"source": source if self.shows_sources else target, "target": target}
        values: dict[str, NDArray[np.generic]] = {"group": source, "target_group": target}
        if negatives is not None:
            wrong = negatives[chosen]
            sides["negatives"] = np.asarray(pairs.target[wrong])
            values |= {"negative_group": np.asarray(pairs.source[wrong]), "negative_target_group": sides["negatives"]}
        if teacher is not None:
            values["teacher"] = teacher[source]
        return SentenceBatch.of(sides, values, None if self.shadow is None else source)

    def loss(self, vectors: Tensors, values: Tensors, weight: Tensor) -> dict[str, Tensor]:
        """Each active loss by name, and their weighted sum."""
        negatives = vectors.get("negatives")
        hard = {}
        if negatives is not None:
            hard = {"negatives": negatives.flatten(0, 1), "negative_weight": weight.repeat_interleave(negatives.shape[1])}
            hard |= {name: values[name].flatten() for name in ("negative_group", "negative_target_group")}
        batch = LossBatch(
            vectors["source"],
            vectors["target"],
            values.get("teacher"),
            values["group"],
            weight,
            moving_teacher=vectors.get("shadow"),
            bank=self.bank,
            target_group=values["target_group"],
            **hard,
        )
        return self.losses(batch)


def distill_task(student: Student, inputs: TrainingInputs, losses: LossSettings, steps: int) -> DistillTask:
    """The task by the losses of a recipe, with a moving teacher if one of them uses it."""
    shadow = MovingTeacher(student, steps, losses.teacher_decay) if losses.moving_teacher else None
    return DistillTask(inputs, CombinedLoss(losses), shadow, device=student.table.device)

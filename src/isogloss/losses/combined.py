"""A weighted sum of losses (`CombinedLoss`) over one batch (`LossBatch`).

    L = Σ_o w_o · L_o                over the losses with w_o > 0

Each L_o is a file of this folder. `config.LossSettings` has the weights and the settings of each loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from isogloss.config import LossSettings
from isogloss.losses.bank_similarity import bank_similarity
from isogloss.losses.matryoshka import P, matryoshka
from isogloss.losses.moving_teacher import moving_teacher
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from isogloss.losses.soft_similarity import soft_similarity
from isogloss.losses.spread import spread


@dataclass(frozen=True, slots=True, eq=False)
class LossBatch:
    """The inputs of all losses; row j of everything but the negatives belongs to pair j.

    `teacher` has the fixed teacher's vectors, or is None if no loss uses it; `moving_teacher` those of the moving teacher
    (without it the loss of that name uses the fixed one: the paper's frozen teacher). `bank` has the fixed teacher's
    vectors of other sentences, the same ones for every pair. `group`, `target_group` and `negative_target_group` number
    texts: equal numbers are the same text.
    """

    source: Tensor
    target: Tensor
    teacher: Tensor | None
    group: Tensor
    weight: Tensor | None = None
    negatives: Tensor | None = None
    negative_group: Tensor | None = None
    negative_weight: Tensor | None = None
    moving_teacher: Tensor | None = None
    bank: Tensor | None = None
    target_group: Tensor | None = None
    negative_target_group: Tensor | None = None


class CombinedLoss:
    """The weighted sum of the losses that have a weight in `settings`; the others are not computed."""

    def __init__(self, settings: LossSettings) -> None:
        self.weights, self.dimensions = settings.weights, settings.dimensions
        self.normalized, self.margin = settings.normalized, settings.margin  # plain values: torch.compile reads them
        self.soft_temperature, self.bank_temperature = settings.soft_temperature, settings.bank_temperature
        self.ranking_temperature = settings.ranking_temperature

    def __call__(self, batch: LossBatch) -> dict[str, Tensor]:
        """The value of each loss by its name, unweighted, and their weighted sum as "loss"."""

        def mean(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
            """Over all sizes that embeddings can be truncated to, the full one included."""
            sizes = sorted({*self.dimensions, batch.source.shape[1]}, reverse=True)
            return matryoshka(loss, sizes) if self.dimensions else loss

        source, target, group, weight = batch.source, batch.target, batch.group, batch.weight
        live = batch.teacher if batch.moving_teacher is None else batch.moving_teacher
        negatives = batch.negatives, batch.negative_group, batch.negative_weight
        texts, temperature = (batch.target_group, batch.negative_target_group), self.ranking_temperature
        evaluate = {
            "mse": lambda: mean(mse)(source, target, needed(batch.teacher), weight, self.normalized),
            "moving_teacher": lambda: mean(moving_teacher)(target, needed(live), weight),
            "soft_similarity": lambda: mean(soft_similarity)(
                source, target, needed(batch.teacher), weight, self.soft_temperature
            ),
            "bank_similarity": lambda: mean(bank_similarity)(
                source, target, needed(batch.teacher), needed(batch.bank, "bank"), weight, self.bank_temperature
            ),
            "ranking": lambda: mean(ranking)(source, target, group, weight, temperature, self.margin, *negatives, *texts),
            "spread": lambda: mean(spread)(source, target, group, weight, batch.target_group),
        }
        values = {name: evaluate[name]() for name in self.weights}
        parts = [weight * values[name] for name, weight in self.weights.items()]
        return {**values, "loss": sum(parts[1:], parts[0])}


def needed(vectors: Tensor | None, what: str = "teacher vectors") -> Tensor:
    """Vectors that a loss compares with; an error if the batch has none."""
    if vectors is None:
        raise ValueError(f"a loss compares with a teacher, but the batch has no {what}")
    return vectors

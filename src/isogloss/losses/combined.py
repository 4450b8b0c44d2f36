"""A weighted sum of losses (`CombinedLoss`) over one batch (`LossBatch`).

    L = Σ_o w_o · L_o                over the losses with w_o > 0

Each L_o is a file of this folder.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from isogloss.losses.matryoshka import P, matryoshka
from isogloss.losses.moving_teacher import moving_teacher
from isogloss.losses.mse import mse
from isogloss.losses.ranking import ranking
from isogloss.losses.soft_similarity import soft_similarity
from isogloss.losses.spread import spread

NAMES = ("mse", "moving_teacher", "soft_similarity", "ranking", "spread")


@dataclass(frozen=True, slots=True, eq=False)
class LossBatch:
    """The inputs of all losses; row j of everything but the negatives belongs to pair j.

    `teacher` has the fixed teacher's vectors, or is None if no loss uses it; `live` those of the moving teacher, for
    `moving_teacher` (which without it uses the fixed one: the paper's frozen teacher). `group`, `target_group` and
    `negative_target_group` number texts: equal numbers are the same text.
    """

    source: Tensor
    target: Tensor
    teacher: Tensor | None
    group: Tensor
    weight: Tensor | None = None
    negatives: Tensor | None = None
    negative_group: Tensor | None = None
    negative_weight: Tensor | None = None
    live: Tensor | None = None
    target_group: Tensor | None = None
    negative_target_group: Tensor | None = None

    def taught(self) -> Tensor:
        """The teacher's vectors; an error if there are none."""
        if self.teacher is None:
            raise ValueError("a loss that follows a teacher was asked for, but the batch has no teacher vectors")
        return self.teacher


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedLoss:
    """The weight of each loss; by default the loss of Reimers & Gurevych (2020) alone. A loss of weight 0 costs nothing.

    `dimensions` are lengths to which vectors can be truncated (see `matryoshka`); the full length always counts.
    """

    mse: float = 1.0
    moving_teacher: float = 0.0
    soft_similarity: float = 0.0
    ranking: float = 0.0
    spread: float = 0.0
    normalized: bool = False
    soft_temperature: float = 0.1
    teacher_temperature: float | None = None
    ranking_temperature: float = 0.05
    margin: float = 0.0
    dimensions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be minimised."""
        weights = {name: float(getattr(self, name)) for name in NAMES}
        if not all(0 <= weight < math.inf for weight in weights.values()) or not any(weights.values()):
            raise ValueError(f"weights of losses must be 0 or more, and one above 0, not {weights}")
        temperatures = (self.soft_temperature, self.teacher_temperature, self.ranking_temperature)
        if not all(temperature is None or temperature > 0 for temperature in temperatures):
            raise ValueError(f"temperatures must be above 0, not {temperatures}")
        if any(dimension < 1 for dimension in self.dimensions):
            raise ValueError(f"dimensions must be 1 or more, not {self.dimensions}")

    @property
    def active(self) -> dict[str, float]:
        """The weights above 0, by name."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name)}

    def __call__(self, views: LossBatch) -> dict[str, Tensor]:
        """The value of each active loss by its name, unweighted, and their weighted sum as "loss"."""
        evaluate: dict[str, Callable[[LossBatch], Tensor]] = {
            "mse": self._mse,
            "moving_teacher": self._moving_teacher,
            "soft_similarity": self._soft_similarity,
            "ranking": self._ranking,
            "spread": self._spread,
        }
        values = {name: evaluate[name](views) for name in self.active}
        parts = [weight * values[name] for name, weight in self.active.items()]
        return {**values, "loss": sum(parts[1:], parts[0])}

    def _mse(self, views: LossBatch) -> Tensor:
        loss = self._at_all_lengths(mse, views)
        return loss(views.source, views.target, views.taught(), views.weight, self.normalized)

    def _moving_teacher(self, views: LossBatch) -> Tensor:
        live = views.taught() if views.live is None else views.live
        return self._at_all_lengths(moving_teacher, views)(views.target, live, views.weight)

    def _soft_similarity(self, views: LossBatch) -> Tensor:
        loss = self._at_all_lengths(soft_similarity, views)
        temperatures = self.soft_temperature, self.teacher_temperature
        return loss(views.source, views.target, views.taught(), views.weight, *temperatures)

    def _ranking(self, views: LossBatch) -> Tensor:
        loss = self._at_all_lengths(ranking, views)
        negatives = views.negatives, views.negative_group, views.negative_weight
        texts = views.target_group, views.negative_target_group
        settings = self.ranking_temperature, self.margin
        return loss(views.source, views.target, views.group, views.weight, *settings, *negatives, *texts)

    def _spread(self, views: LossBatch) -> Tensor:
        loss = self._at_all_lengths(spread, views)
        return loss(views.source, views.target, views.group, views.weight, views.target_group)

    def _at_all_lengths(self, loss: Callable[P, Tensor], views: LossBatch) -> Callable[P, Tensor]:
        if not self.dimensions:
            return loss
        return matryoshka(loss, sorted({*self.dimensions, views.source.shape[1]}, reverse=True))

"""A training without a model: the engine is one number, and the scores of the dev set are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from isogloss.config import BalanceSettings, TrainingSettings
from isogloss.progress import OnProgress, silent
from isogloss.training.batches import PairRows, Schedule
from isogloss.training.dev_set import DevScore, DevSet, MeasuredBy
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, TokenCount
from isogloss.training.trainer import Trainer, TrainingSummary
from isogloss.types import FloatArray, IntArray

STEPS = 16
PAIRS = PairRows(*(np.arange(2 * STEPS) for _ in range(2)), *(np.zeros(2 * STEPS, dtype=np.int64) for _ in range(2)))


class Dial:
    """An engine whose only weight is a number. A step turns it by what the batch says, so that the order of batches shows."""

    def __init__(self, loss_at: Callable[[int], float] = lambda step: 1.0 / (step + 1), reads_every: int = 1) -> None:
        self.reads_every, self.loss_at, self.kind = reads_every, loss_at, "dial"
        self.value, self.step_at = torch.zeros((), dtype=torch.float64), 0
        self.told: list[dict[str, float]] = []
        self.breaks_at = -1

    def prepare(self, chosen: IntArray) -> int:
        return int((chosen + 1) @ np.arange(1, len(chosen) + 1))

    def step(self, prepared: int) -> TokenCount:
        self.value = self.value * 1.01 + prepared
        loss = self.loss_at(self.step_at)
        self.told.append({"mse": loss, "loss": loss, "gradient_norm": 1.0})
        self.step_at += 1
        return TokenCount(30, 40)

    def losses(self) -> list[dict[str, float]]:
        told, self.told = self.told, []
        return told

    def vectors(self, rows: IntArray) -> FloatArray:
        return np.full((len(rows), 1), self.step_at, dtype=np.float32)

    def synchronize(self) -> None:
        pass

    def is_finite(self) -> bool:
        return self.step_at != self.breaks_at

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value, "step": self.step_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value, self.step_at = state["value"], state["step"]

    def weights(self) -> dict[str, Any]:
        return {"value": self.value.clone()}

    def load_weights(self, weights: dict[str, Any]) -> None:
        self.value = weights["value"]

    def close(self) -> None:
        pass


class Script(DevSet):
    """Dev pairs whose score after each step is written down before."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__(PAIRS, None)
        self.scores = scores
        self.asked: list[int] = []

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> DevScore:
        self.asked.append(int(vectors_of(self.rows[:1])[0, 0]))
        score = self.scores[self.asked[-1]]
        return DevScore(score, np.zeros(0), lead=score)  # nothing to count, so that the score alone decides


def schedule() -> Schedule:
    return Schedule(PAIRS, BalanceSettings(), 3, 2, 4)  # 2 epochs of 8 batches


def plan(seconds: float = 0.0, checks: int = 8, patience: int = 0) -> TrainingSettings:
    return TrainingSettings(checkpoint_seconds=seconds, dev_checks=checks, select="retrieval", patience=patience)


RATES = OptimizerConfig([0.1 * (step + 1) for step in range(STEPS)])


def run(
    engine: Dial,
    folder: Path | None = None,
    dev: DevSet | None = None,
    told: OnProgress = silent,
    how: TrainingSettings | None = None,
    has_teacher: bool = True,
) -> TrainingSummary:
    if folder is not None:
        folder.mkdir(exist_ok=True)
    measured = None if dev is None else MeasuredBy(dev, engine.vectors)
    data = engine, schedule(), how or plan(), RATES, measured, folder
    return Trainer(*data, Distributed(), told, has_teacher=has_teacher).run()


def value_after(step: int) -> float:
    """The dial after some steps, turned by hand."""
    batches, value = schedule(), 0.0
    for number in range(step):
        value = value * 1.01 + sum((int(pair) + 1) * place for place, pair in enumerate(batches.examples(number), 1))
    return value


measured_at = sorted({round(STEPS * number / 8) for number in range(1, 9)})
some_scores = st.lists(st.integers(0, 6).map(lambda one: one / 6), min_size=STEPS + 1, max_size=STEPS + 1)

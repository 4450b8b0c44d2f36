"""The average of the weights after earlier stages (model soup): often most of what each of them is good at."""

import torch

from isogloss.config.stages import AverageStage
from isogloss.runs.stages.session import StageSession


def train(stage: AverageStage, session: StageSession, number: int) -> None:
    """Put the weighted mean of the stages' weights into the student; whole numbers (buffers) are those of the first."""
    weights = stage.weights or (1.0,) * len(stage.of)
    parts = [session.weights_after(name, stage.name) for name in stage.of]
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    mean = {}
    for key, first in parts[0].items():
        if first.is_floating_point():
            total = sum((share * part[key].double() for share, part in zip(shares, parts, strict=True)), torch.zeros(()))
            mean[key] = total.to(first.dtype) if isinstance(total, torch.Tensor) else first
        else:
            mean[key] = first
    session.load_weights(mean)
    session.details.setdefault("averaged", {})[stage.name] = dict(zip(stage.of, shares.tolist(), strict=True))
    session.end_distillation()

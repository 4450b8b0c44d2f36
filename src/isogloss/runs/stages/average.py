"""Average the weights after earlier stages (a model soup)."""

from functools import reduce

import torch

from isogloss.config.stages import AverageStage
from isogloss.runs.stages.session import StageSession


def train(stage: AverageStage, session: StageSession, number: int) -> None:
    """Load the weighted mean of the stages' weights into the student; integer buffers are those of the first stage."""
    weights = stage.weights or (1.0,) * len(stage.of)
    parts = [session.weights_after(name, stage.name) for name in stage.of]
    shares = [weight / sum(weights) for weight in weights]
    mean = dict(parts[0])
    for key, first in parts[0].items():
        if first.is_floating_point():
            weighted = (share * part[key].double() for share, part in zip(shares, parts, strict=True))
            mean[key] = reduce(torch.add, weighted).to(first.dtype)
    session.student.model.load_state_dict(mean)
    session.details.setdefault("averaged", {})[stage.name] = dict(zip(stage.of, shares, strict=True))

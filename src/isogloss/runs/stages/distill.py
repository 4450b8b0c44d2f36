"""Distillation: train on the pairs with the losses of the stage."""

from isogloss.config import Stage
from isogloss.runs.run import StageResult
from isogloss.runs.stages.session import StageSession
from isogloss.types import FloatArray


def train(stage: Stage, session: StageSession, number: int) -> FloatArray | None:
    """Train, and return the embeddings of the held-out sentences."""
    distillation = session.distillation(number)
    summary = distillation.train(stage.name)
    session.results.append(StageResult(stage.name, summary, {"pairs": len(distillation.pairs)}))
    measured = session.measurements
    return None if measured is None else distillation.trained_vectors(measured.texts)

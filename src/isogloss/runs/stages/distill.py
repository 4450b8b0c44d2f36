"""Distillation: both sides of a pair land where the teacher puts the source (or as the stage's losses say)."""

from isogloss.config import Stage
from isogloss.runs.run import StageResult
from isogloss.runs.stages.session import StageSession
from isogloss.types import FloatArray


def train(stage: Stage, session: StageSession, number: int) -> FloatArray | None:
    """Train by the stage's losses."""
    distillation = session.distillation(number)
    summary = distillation.train(stage.name)
    session.results.append(StageResult(stage.name, summary, {"pairs": len(distillation.pairs)}))
    measured = session.measurements
    vectors = None if measured is None else distillation.trained_vectors(measured.texts)
    session.end_distillation()
    return vectors

"""The bridge: a linear layer from the student's vectors to the teacher's, solved in closed form."""

import numpy as np

from isogloss.config import Stage
from isogloss.evaluation.metrics import unit
from isogloss.runs.stages.session import StageSession
from isogloss.types import FloatArray


def train(stage: Stage, session: StageSession, number: int) -> FloatArray | None:
    """Solve it and add it to the student; the new embeddings of the held-out sentences follow from the old ones."""
    distillation = session.distillation(number)
    measured = session.measurements
    before = distillation.untouched_vectors(measured.texts) if measured is not None else None
    bridge = distillation.build_bridge()
    session.details["bridge_strength"] = bridge.strength
    if before is None:
        return None
    vectors = bridge.apply(before)
    return (unit(vectors) if distillation.teacher_is_unit_norm else vectors).astype(np.float32)

"""In which precision a model is trained, and what it is trained with is computed."""

import torch
from torch import nn

from isogloss.config import TrainingSettings
from isogloss.kernels.native_bf16 import computes_bf16
from isogloss.models.student import Student


def trains_in_bf16(model: Student | nn.Module, settings: TrainingSettings) -> bool:
    """Whether steps are computed in bf16: with "auto" on CUDA, and on CPUs that compute it for bodies without padding.

    On a CPU the attention of other models, and LSTMs, take longer in bf16.
    """
    if settings.precision != "auto":
        return settings.precision == "bf16"
    if not isinstance(model, Student):
        return next(model.parameters()).device.type == "cuda"
    device = model.model.device
    return device.type == "cuda" or (computes_bf16(device) and hasattr(model.model[0], "auto_model") and model.packs)


def input_dtype(student: Student, settings: TrainingSettings) -> torch.dtype:
    """How a CPU computes the vectors and activations that a student is trained with: in bf16 if it trains in bf16, fast."""
    device = student.model.device
    half = device.type == "cpu" and computes_bf16(device) and trains_in_bf16(student, settings)
    return torch.bfloat16 if half else torch.float32

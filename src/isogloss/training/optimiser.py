"""AdamW with the usual two groups, and a rate that rises and falls in straight lines."""

from collections.abc import Iterable

import torch
from torch import nn

from isogloss.config import TrainingSettings


def adamw(parameters: Iterable[tuple[str, nn.Parameter]], settings: TrainingSettings) -> torch.optim.AdamW:
    """Matrices decay, biases and norms (anything with one dimension) do not."""
    named = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for _, p in named if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for _, p in named if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=settings.learning_rate, fused=True)


def rate_at(step: int, total: int, settings: TrainingSettings) -> float:
    """Learning rate of step `step` of `total` (counted from 0): up to the peak over the warm-up, then down to zero."""
    warmup = round(settings.warmup * total)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    return settings.learning_rate * (total - step) / max(total - warmup, 1)

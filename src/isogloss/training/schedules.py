"""The learning rate of each step: a linear warm-up, then linear, cosine or constant.

With n steps in all, w of them warm-up, peak p, and steps k counted from 0:

    k < w:   p · (k + 1) / w
    k ≥ w:   linear     p · (n − k) / (n − w)                          Reimers & Gurevych 2020 (w = 10,000)
             cosine     p · (1 + cos(π (k − w) / (n − w))) / 2         Loshchilov & Hutter 2017; Ham & Kim 2021 (w = 54,000)
             constant   p

The last step still has a rate above zero. `optimizer.set_rate` passes these floats to an optimizer.
"""

import math

from isogloss.amounts import amount
from isogloss.config import Schedule
from isogloss.training.health import Diagnosis


def warmup_steps(warmup: float, total: int) -> int:
    """Steps over which the rate rises: `warmup` is a share of all steps if it is below 1, else a number of steps.

    A number is kept even if training is shorter, so that a short trial of a long recipe has the rates of its first steps.
    """
    return round(warmup * total) if warmup < 1 else round(warmup)


def unfinished_warmup(warmup: float, total: int) -> Diagnosis | None:
    """A warning if a warm-up, given as a number of steps, takes all of the training or more."""
    rising = warmup_steps(warmup, total)
    if warmup < 1 or rising < total or total <= 1:
        return None
    return Diagnosis(
        f"training.warmup = {amount(rising, 'step')}, but training has {total:,}: the learning rate only rises, to"
        f" {total / rising:.2g} of training.learning_rate at the end",
        "lower training.warmup (below 1 it is a share of the steps), or train longer",
    )


def rate_at(step: int, total: int, peak: float, warmup: int, shape: Schedule) -> float:
    """The rate of step `step` of `total`, of which the first `warmup` rise to `peak`; from `total` on, that of the end."""
    if step < warmup:
        return peak * ((step + 1) / warmup)
    if shape == "constant":
        return peak
    left = max(total - step, 0) / max(total - warmup, 1)
    if shape == "linear":
        return peak * left
    # (1 + cos x) / 2 as a square: the sum loses precision as cos x approaches −1, and would reach zero too early.
    return peak * math.sin(math.pi / 2 * left) ** 2


def learning_rates(peak: float, total: int, warmup: float, shape: Schedule) -> tuple[list[float], int]:
    """The rate of each of `total` steps, and how many of them are warm-up."""
    rising = warmup_steps(warmup, total)
    return [rate_at(step, total, peak, rising, shape) for step in range(total)], rising

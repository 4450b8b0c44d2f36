"""One optimiser step, and saving and restoring all that the next one depends on."""

import math
from pathlib import Path

import torch
from torch import Tensor

from isogloss.config import TrainingSettings
from isogloss.errors import IsoglossError
from isogloss.students.frozen import SplitBody
from isogloss.students.student import Student
from isogloss.training import checkpoints
from isogloss.training.optimiser import adamw


class Stepper:
    """The parameters that training may change, with their optimiser."""

    def __init__(self, student: Student, split: SplitBody | None, settings: TrainingSettings) -> None:
        self.settings = settings
        self.parameters = dict(student.trained_parameters(split))
        for parameter in student.model.parameters():
            parameter.requires_grad_(False)
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        self.optimiser = adamw(self.parameters.items(), settings)

    def step(self, loss: Tensor, rate: float) -> float:
        """Go one step down the gradient and return the loss; a loss that is not finite changes nothing."""
        value = float(loss.detach())
        if not math.isfinite(value):
            raise IsoglossError(
                f"the loss became {value}; the weights of the last checkpoint are untouched",
                hint=f"lower training.learning_rate (now {self.settings.learning_rate:g}), or raise training.warmup",
            )
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.settings.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.settings.clip_norm)
        self.optimiser.step()
        return value

    def refuse_broken(self) -> None:
        """Stop if a weight is not finite: the loss of the last step was taken before its weights were."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters.values()):
            raise IsoglossError(
                "training ended in weights that are not finite; no model was saved",
                hint=f"lower training.learning_rate (now {self.settings.learning_rate:g}), then run with --fresh",
            )

    def save(self, folder: Path, step: int) -> None:
        """Write a checkpoint after `step` steps, if its weights are worth going on from."""
        self.refuse_broken()
        parameters = {name: parameter.detach() for name, parameter in self.parameters.items()}
        checkpoints.save(folder, checkpoints.Checkpoint(step, parameters, self.optimiser.state_dict(), _random_state()))

    def resume(self, folder: Path) -> int:
        """Take up the newest checkpoint in `folder`; returns the steps already done."""
        found = checkpoints.latest(folder)
        if found is None:
            return 0
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(found.parameters[name])
        self.optimiser.load_state_dict(found.optimiser)
        torch.set_rng_state(found.random[0])
        if len(found.random) > 1 and torch.cuda.is_available():
            torch.cuda.set_rng_state(found.random[1])
        return found.step


def _random_state() -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if torch.cuda.is_available() else states

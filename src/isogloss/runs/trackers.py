"""Metrics for other eyes: TensorBoard, Weights & Biases and the like, through accelerate's trackers."""

import warnings
from pathlib import Path
from typing import Any

from isogloss.config import Recipe, as_dict
from isogloss.errors import RecipeError
from isogloss.progress import OnProgress, Step


class Trackers:
    """Passes progress on, and every value it carries to the trackers that a recipe names."""

    def __init__(self, recipe: Recipe, folder: Path, on_progress: OnProgress) -> None:
        from accelerate import Accelerator

        names = list(recipe.training.trackers)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of what is refused below
                self.accelerator = Accelerator(log_with=names, project_dir=str(folder / "trackers"), cpu=recipe.device == "cpu")
        except (ValueError, ImportError) as error:
            known = "tensorboard, wandb, comet_ml, aim, mlflow, clearml, dvclive, swanlab, trackio"
            raise RecipeError(f"training.trackers: {error}", hint=f"choose from {known}, and pip install it") from error
        missing = set(names) - {str(tracker) for tracker in self.accelerator.log_with}
        if missing:
            raise RecipeError(
                f"training.trackers: {', '.join(sorted(missing))} is not installed here",
                hint=f"pip install {' '.join(missing)}",
            )
        self.accelerator.init_trackers(recipe.name, config=_flat(as_dict(recipe)))
        self.on_progress = on_progress

    def __call__(self, step: Step) -> None:
        """Take one step of progress."""
        if step.values:
            values = {f"{step.stage}/{name}": value for name, value in step.values.items() if name != "step"}
            self.accelerator.log(values, step=int(step.values.get("step", 0)))
        if step.stage == "distil" and step.finished:  # not end_training: that sends away the other processes of a crew too
            for tracker in self.accelerator.trackers:
                tracker.finish()
        self.on_progress(step)


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings as one level of plain values, which every tracker takes."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value if isinstance(value, int | float | str | bool) else str(value)
    return flat

"""Metrics for other eyes: TensorBoard, Weights & Biases and the like, through accelerate's trackers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isogloss.config import Recipe, as_dict
from isogloss.errors import RecipeError
from isogloss.progress import OnProgress, Step
from isogloss.shown import masked_values


class Trackers:
    """Passes progress on, and every value it carries to the trackers that a recipe names."""

    def __init__(self, recipe: Recipe, folder: Path, on_progress: OnProgress) -> None:
        from accelerate import Accelerator

        names = list(recipe.training.trackers)
        refuse_missing(names)
        self.accelerator = Accelerator(log_with=names, project_dir=str(folder / "trackers"), cpu=recipe.device == "cpu")
        self.accelerator.init_trackers(recipe.name, config=_flat(masked_values(as_dict(recipe))))
        self.on_progress = on_progress

    def __call__(self, step: Step) -> None:
        """Take one step of progress."""
        if step.values:
            values = {f"{step.stage}/{name}": value for name, value in step.values.items() if name != "step"}
            self.accelerator.log(values, step=int(step.values.get("step", 0)))
        self.on_progress(step)

    def finish(self) -> None:
        """Close the trackers. Not by accelerate's `end_training`, which ends the other processes too."""
        for tracker in self.accelerator.trackers:
            tracker.finish()


def refuse_missing(names: Sequence[str]) -> None:
    """Say which of these trackers nobody knows, or which have to be installed first."""
    if not names:
        return
    from accelerate import tracking
    from accelerate.utils import LoggerType

    known = sorted(tracking.LOGGER_TYPE_TO_CLASS)  # those that others have registered, too
    if unknown := [name for name in names if name not in known]:
        raise RecipeError(
            f"training.trackers: {' and '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not known",
            hint=f"choose from {', '.join(known)}, and install it: for example pip install tensorboard",
        )
    own = {str(tracker.value) for tracker in LoggerType}
    here = {str(tracker.value) for tracker in tracking.get_available_trackers()}
    if missing := [name for name in names if name in own - here]:
        raise RecipeError(
            f"training.trackers: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed here",
            hint=f"pip install {' '.join(missing)}",
        )


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings as one level of plain values, which every tracker takes."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value if isinstance(value, int | float | str | bool) else str(value)
    return flat

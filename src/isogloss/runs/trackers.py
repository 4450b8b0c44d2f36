"""Send metrics to TensorBoard, Weights & Biases and others, through accelerate's trackers."""

from collections.abc import Sequence
from pathlib import Path

from isogloss.config import Recipe, as_dict
from isogloss.config.settings import dotted
from isogloss.errors import RecipeError
from isogloss.progress import OnProgress, Step
from isogloss.shown import masked_values


class Trackers:
    """A progress callback that logs values to the trackers of a recipe and passes each step on."""

    def __init__(self, recipe: Recipe, folder: Path, on_progress: OnProgress) -> None:
        from accelerate import Accelerator

        names = list(recipe.training.trackers)
        refuse_missing_trackers(names)
        self.accelerator = Accelerator(log_with=names, project_dir=str(folder / "trackers"), cpu=recipe.device == "cpu")
        settings = dotted(masked_values(as_dict(recipe)))
        plain = {name: value if isinstance(value, int | float | str) else str(value) for name, value in settings.items()}
        self.accelerator.init_trackers(recipe.name, config=plain)  # no tracker takes lists
        self.on_progress = on_progress

    def __call__(self, step: Step) -> None:
        """Log the values of a step."""
        if step.values:
            values = {f"{step.stage}/{name}": value for name, value in step.values.items() if name != "step"}
            self.accelerator.log(values, step=int(step.values.get("step", 0)))
        self.on_progress(step)

    def finish(self) -> None:
        """Close the trackers. accelerate's `end_training` would end the other processes, too."""
        for tracker in self.accelerator.trackers:
            tracker.finish()


def refuse_missing_trackers(names: Sequence[str]) -> None:
    """Raise if accelerate does not know a tracker, or its package is not installed."""
    if not names:
        return
    from accelerate import tracking
    from accelerate.utils import LoggerType

    known = sorted(tracking.LOGGER_TYPE_TO_CLASS)  # with those registered by other packages
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

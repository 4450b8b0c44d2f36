"""The methods that make systems: each fills in a recipe, and one function runs it.

A making's `settings` are arguments of the preset (`isogloss.runs.presets`) and tables of a recipe. Interrupted
trainings continue in the folder of their system.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.errors import RecipeError
from isogloss.progress import OnProgress

if TYPE_CHECKING:
    from isogloss.config import Recipe
    from isogloss_papers.recipe import Making

MODELS_OF_AUGMENT = ("cross_encoder", "search_by")  # names that may stand for a folder of --models
SEED = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Models and files of a system as a recipe takes them, and the folder for the result."""

    model: str = "a model"
    teacher: str = "a teacher"
    store: str = "pairs"
    nli: tuple[str, ...] = ()
    sts: tuple[str, ...] = ()
    sts_dev: tuple[str, ...] = ()
    qa: tuple[str, ...] = ()
    out: Path = Path("out")
    device: str = "auto"
    model_called: Callable[[str], str] = str


def recipe_of(making: "Making", inputs: Inputs, where: str) -> "Recipe":
    """The recipe that makes a system; settings that are neither of the preset nor of a recipe are refused by name."""
    from isogloss import recipes

    data = _RECIPES[making.how](making, inputs) | {"device": inputs.device}
    return recipes.parse(data, where=where)


def _finetune(making: "Making", inputs: Inputs) -> dict[str, Any]:
    from isogloss.runs.presets import finetune_recipe

    settings = dict(making.settings)
    augment = settings.pop("augment", None)
    if isinstance(augment, dict):
        augment = {key: inputs.model_called(value) if key in MODELS_OF_AUGMENT else value for key, value in augment.items()}
    files = inputs.nli, inputs.sts, inputs.sts_dev
    return finetune_recipe(inputs.model, inputs.out, *files, augment=augment, **settings)


def _distill(making: "Making", inputs: Inputs) -> dict[str, Any]:
    from isogloss.runs.presets import distill_recipe

    return distill_recipe([inputs.store], inputs.out, inputs.teacher, inputs.model, **making.settings)


def _moving(making: "Making", inputs: Inputs) -> dict[str, Any]:
    """Ham & Kim: the student starts from its teacher, and there is no bridge."""
    from isogloss.runs.presets import distill_recipe

    settings = dict(making.settings)
    losses = {"mse": 0.0, "moving_teacher": 1.0} | settings.pop("losses", {})
    bridge = {"enabled": False} | settings.pop("bridge", {})
    return distill_recipe([inputs.store], inputs.out, inputs.model, inputs.model, losses=losses, bridge=bridge, **settings)


def _laser(making: "Making", inputs: Inputs) -> dict[str, Any]:
    from isogloss.runs.presets import laser_recipe

    return laser_recipe([inputs.store], inputs.out, **making.settings)


def _dual(making: "Making", inputs: Inputs) -> dict[str, Any]:
    from isogloss.runs.presets import dual_recipe

    files = inputs.nli, inputs.qa
    return dual_recipe([inputs.store], inputs.out, inputs.model, making.like, *files, **making.settings)


_RECIPES: dict[str, Callable[["Making", Inputs], dict[str, Any]]] = {
    "finetune": _finetune,
    "distil": _distill,
    "moving": _moving,
    "laser": _laser,
    "dual": _dual,
}


def check(making: "Making", where: str) -> None:
    """Raise for settings that the recipe does not have."""
    inputs = Inputs(nli=making.nli, sts=making.sts, sts_dev=making.sts_dev, qa=making.qa)
    try:
        recipe_of(making, inputs, where)
    except RecipeError as error:
        raise error if str(error).startswith(where) else RecipeError(f"{where}: {error}", hint=error.hint) from error


# ── making ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_by_recipe(making: "Making", inputs: Inputs, on_progress: OnProgress) -> dict[str, Any]:
    """Run the recipe; returns the numbers of pairs, other rows and steps."""
    from isogloss.runs.pipeline import run

    result = run(recipe_of(making, inputs, inputs.out.name), on_progress, replace=True)
    counts = dict(result.details.get("data", {}))
    if augmented := result.details.get("augmented"):
        counts["augmented"] = augmented["pairs"]
    pairs = result.details["pairs"]["train"] if "pairs" in result.details else sum(counts.values())
    steps = {} if result.training is None else {"steps": result.training.steps}
    return {"pairs": pairs, **({"counts": counts} if counts else {}), **steps}


def make_random(making: "Making", inputs: Inputs, _on_progress: OnProgress) -> dict[str, Any]:
    """A model of the same architecture and vocabulary with freshly initialized weights."""
    import torch

    from isogloss.models.student import Student

    student = Student.from_pretrained(inputs.model, device="cpu")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(making.settings.get("seed", SEED)))
        fresh = type(student.body)(student.body.config).state_dict()
    student.body.load_state_dict({name: fresh[name] for name in student.body.state_dict()})
    student.save_pretrained(inputs.out / "model", f"# {inputs.model}, random weights\n\nThis model was not trained.\n")
    return {}


MAKERS: dict[str, Callable[["Making", Inputs, OnProgress], dict[str, Any]]] = {
    "random": make_random,
    **dict.fromkeys(_RECIPES, make_by_recipe),
}

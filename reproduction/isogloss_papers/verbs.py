"""Each way of making a system, by the verb that does it: settings in its own form, and a call of its one function.

`MAKERS` makes, `SETTINGS` only builds the settings, so that a recipe is checked by the same code that will run it. All
verbs go on where they were interrupted, in the folder they are given, which is theirs alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.progress import OnProgress
from isogloss_papers.reading import checked

if TYPE_CHECKING:
    from isogloss.config import Recipe
    from isogloss.runs.dual_settings import DualSettings
    from isogloss.runs.finetune_settings import FinetuneSettings
    from isogloss.runs.laser import LaserSettings
    from isogloss_papers.recipe import Making

MODELS_IN_SETTINGS = ("cross_encoder", "search_by")  # of `finetune`: names that may stand for a folder of --models
SEED = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a making names, found: models and files as the verbs take them, and where the result goes."""

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


def finetune_settings(making: "Making", inputs: Inputs, where: str) -> "FinetuneSettings":
    """What `isogloss finetune` is asked for."""
    from isogloss.runs.finetune_settings import FinetuneSettings

    ready = {name: getattr(inputs, name) for name in ("model", "nli", "sts", "sts_dev", "device")}
    settings = {
        key: inputs.model_called(value) if key in MODELS_IN_SETTINGS else value for key, value in making.settings.items()
    }
    made: FinetuneSettings = checked(FinetuneSettings, settings, where, ready | {"out": str(inputs.out)})
    return made


def run_recipe(making: "Making", inputs: Inputs, where: str) -> "Recipe":
    """What `isogloss run` is given; with a moving teacher the student starts as what teaches it, and there is no bridge."""
    from isogloss import recipes

    moving = making.how == "moving"
    fixed = {
        "name": inputs.out.name,
        "device": inputs.device,
        "pairs": {"files": [inputs.store]},
        "teacher": {"model": inputs.model if moving else inputs.teacher},
        "student": {"model": inputs.model},
        "output": {"folder": str(inputs.out)},
    }
    if moving:
        fixed |= {"bridge": {"enabled": False}, "losses": {"mse": 0.0, "moving_teacher": 1.0}}
    merged = {**fixed, **{key: value for key, value in making.settings.items() if key not in fixed}}
    for key in fixed:
        own = making.settings.get(key)
        if isinstance(own, dict):
            merged[key] = {**fixed[key], **own}  # type: ignore[dict-item]
    return recipes.parse(merged, where=where)


def laser_settings(making: "Making", _inputs: Inputs, where: str) -> "LaserSettings":
    """What `isogloss train-laser` is asked for."""
    from isogloss.runs.laser import LaserSettings

    made: LaserSettings = checked(LaserSettings, making.settings, where)
    return made


def dual_settings(making: "Making", inputs: Inputs, _where: str) -> "DualSettings":
    """What `isogloss train-dual` is asked for."""
    from isogloss.runs.dual_settings import settings_of

    files = {name: found for name, found in (("nli", inputs.nli), ("qa", inputs.qa)) if found}
    fixed = {"pairs": (inputs.store,), "student": inputs.model, "out": str(inputs.out), "device": inputs.device}
    return settings_of(making.like, {**making.settings, **files, **fixed})


def _named(making: "Making") -> Inputs:
    """Inputs by their names in the recipe, to check settings with."""
    return Inputs(nli=making.nli, sts=making.sts, sts_dev=making.sts_dev, qa=making.qa)


SETTINGS: dict[str, Callable[["Making", str], object]] = {
    "finetune": lambda making, where: finetune_settings(making, _named(making), where),
    "distil": lambda making, where: run_recipe(making, _named(making), where),
    "moving": lambda making, where: run_recipe(making, _named(making), where),
    "laser": lambda making, where: laser_settings(making, _named(making), where),
    "dual": lambda making, where: dual_settings(making, _named(making), where),
}


# ── making ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_finetuned(making: "Making", inputs: Inputs, on_progress: OnProgress) -> dict[str, Any]:
    """A sentence encoder from judged pairs."""
    from isogloss.runs.finetuning import finetune

    result = finetune(finetune_settings(making, inputs, inputs.out.name), on_progress, replace=True)
    told = result.details["data"]
    counts = {name: told[name]["pairs"] for name in ("nli", "sts", "augmented") if name in told}
    return {"pairs": sum(counts.values()), "counts": counts}


def make_distilled(making: "Making", inputs: Inputs, on_progress: OnProgress) -> dict[str, Any]:
    """A student from a teacher and pairs; or, with a moving teacher, from itself."""
    from isogloss.runs.pipeline import run

    result = run(run_recipe(making, inputs, inputs.out.name), on_progress, replace=True)
    seen = {} if result.training is None else {"steps": result.training.steps}
    return {"pairs": result.details["pairs"]["train"], **seen}


def make_laser(making: "Making", inputs: Inputs, on_progress: OnProgress) -> dict[str, Any]:
    """An encoder that learns by translating."""
    from isogloss.runs.laser import train_laser

    settings = laser_settings(making, inputs, inputs.out.name)
    result = train_laser([inputs.store], inputs.out, settings, [f"device={inputs.device!r}"], on_progress, replace=True)
    seen = {} if result.training is None else {"steps": result.training.steps}
    return {"pairs": result.details["pairs"]["train"], **seen}


def make_dual(making: "Making", inputs: Inputs, on_progress: OnProgress) -> dict[str, Any]:
    """A dual encoder from translations."""
    from isogloss.config import as_dict
    from isogloss.runs.dual import train_dual

    given = as_dict(dual_settings(making, inputs, inputs.out.name))
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    result = train_dual(**settings, on_progress=on_progress, replace=True)
    return {"pairs": result.details["pairs"]["train"], "counts": result.details["other"]}


def make_random(making: "Making", inputs: Inputs, _on_progress: OnProgress) -> dict[str, Any]:
    """A body of a model's kind and size, with its vocabulary, and weights as its class begins with."""
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
    "finetune": make_finetuned,
    "distil": make_distilled,
    "moving": make_distilled,
    "laser": make_laser,
    "dual": make_dual,
}

"""The systems of the papers, a recipe each (recipes/papers/NAME.toml): how one is made at the papers' scale and in the lab.

    how          what it takes                                        what is done
    load         model, prompt                                        a finished model, opened by its name
    mean         model, prompt                                        mean pooling of an encoder as it is
    random       model                                                a body of the model's kind with random weights
    finetune     model, nli, sts, sts_dev, guard                      `isogloss finetune`
    distil       model, teacher, pairs or corpora, …                  `isogloss run`
    moving       model, pairs or corpora, …                           the same, with Ham & Kim's moving teacher
    laser        pairs or corpora, …                                  `isogloss train-laser`
    dual         model, pairs or corpora, …, like, nli, qa            `isogloss train-dual`
    published    why                                                  nothing: only the paper's numbers are shown

A model or a teacher is a name, a folder, or `system:NAME`: another system. Files are under the folder of --data. `settings`
are those of the verb itself, and are checked by it; [cleaning], [leaks] and [pairs] in them are for the preparation of
pairs. `differs` says what is not as in the paper, and is printed in the row.
"""

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isogloss.errors import RecipeError
from isogloss.recipes import apply_override
from isogloss_papers.published import SCALES
from isogloss_papers.reading import checked, read_toml

FOLDER = Path(__file__).with_name("recipes")
SYSTEM = "system:"
CONTROLS = ("control-undistilled", "control-teacher-body", "control-random")
CONTROLLED = "multilingual-e5-small"  # aligned across languages already: what starts from it must be seen beside controls
PAIRED = ("pairs", "corpora", "languages", "each", "first", "guard")
TAKES: dict[str, tuple[str, ...]] = {
    "load": ("model", "prompt"),
    "mean": ("model", "prompt"),
    "random": ("model",),
    "finetune": ("model", "nli", "sts", "sts_dev", "guard"),
    "distil": ("model", "teacher", *PAIRED),
    "moving": ("model", *PAIRED),
    "laser": PAIRED,
    "dual": ("model", "like", "nli", "qa", *PAIRED),
    "published": ("why",),
}
NEEDS = {"load": ("model",), "mean": ("model",), "random": ("model",), "finetune": ("model",), "published": ("why",)} | {
    "distil": ("model", "teacher"),
    "moving": ("model",),
    "laser": (),
    "dual": ("model",),
}
PREPARATION = ("pairs", "cleaning", "leaks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How a system is made at one scale."""

    how: str = field(metadata={"one_of": tuple(TAKES)})
    model: str = ""
    teacher: str = ""
    prompt: str = ""
    like: str = ""
    pairs: tuple[str, ...] = ()  # files, folders or globs of pairs
    corpora: tuple[str, ...] = ()  # of the catalogue
    languages: tuple[str, ...] = ()
    each: tuple[str, ...] = ()  # made once for each of these languages, with pairs of that one alone
    first: int = 0  # pairs of each language that are taken, in the order of the files; 0: all
    guard: tuple[str, ...] = ("eval", "!*train*")  # evaluation text that must not be learnt from
    nli: tuple[str, ...] = ()
    sts: tuple[str, ...] = ()
    sts_dev: tuple[str, ...] = ()
    qa: tuple[str, ...] = ()
    why: str = ""
    differs: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def has_pairs(self) -> bool:
        """Whether it learns from translations."""
        return "pairs" in TAKES[self.how]

    def others(self) -> dict[str, str]:
        """The systems it is made from, by the part they play."""
        named = {"model": self.model, "teacher": self.teacher}
        return {part: name.removeprefix(SYSTEM) for part, name in named.items() if name.startswith(SYSTEM)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecipe:
    """One system of the papers."""

    name: str
    title: str
    paper: Making
    lab: Making

    def at(self, scale: str) -> Making:
        """How it is made at a scale."""
        if scale not in SCALES:
            raise RecipeError(f"scale = {scale!r} is not known", hint=f"choose from: {', '.join(SCALES)}")
        making: Making = getattr(self, scale)
        return making


def system_names(folder: Path = FOLDER) -> list[str]:
    """Every system that has a recipe."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_system(name: str, folder: Path = FOLDER) -> SystemRecipe:
    """Read the recipe of a system and check it."""
    if name not in system_names(folder):
        raise RecipeError(f"{name}: no such system", hint=f"there are {', '.join(system_names(folder))}")
    where = f"{name}.toml"
    data = read_toml(folder / where)
    makings = {scale: _making(data.pop(scale, None), f"{where} [{scale}]") for scale in SCALES}
    recipe: SystemRecipe = checked(SystemRecipe, data, where, {"name": name, **makings})
    return recipe


def _making(data: Any, where: str) -> Making:  # noqa: ANN401 - whatever TOML has there
    if not isinstance(data, dict):
        raise RecipeError(f"{where} is missing", hint='write how = "published" and why, where it cannot be made')
    making: Making = checked(Making, data, where)
    allowed = {"how", "differs", *TAKES[making.how], *(() if making.how == "published" else ("settings",))}
    for key in data:
        if key not in allowed:
            raise RecipeError(
                f'{where}: {key} says nothing where how = "{making.how}"', hint=f"it takes {', '.join(sorted(allowed))}"
            )
    missing = [key for key in NEEDS[making.how] if not getattr(making, key)]
    if missing:
        raise RecipeError(f'{where}: how = "{making.how}" needs {", ".join(missing)}', hint="see the other recipes beside it")
    _refuse_without_text(making, where)
    return making


def _refuse_without_text(making: Making, where: str) -> None:
    if making.has_pairs:
        if not making.pairs and not making.corpora:
            raise RecipeError(f"{where}: it has neither pairs nor corpora", hint='for example pairs = ["train/tatoeba"]')
        if bool(making.languages) == bool(making.each):
            raise RecipeError(f"{where}: it needs either languages or each", hint='for example languages = ["de", "fr"]')
    if making.how == "finetune" and not making.nli and not making.sts:
        raise RecipeError(f"{where}: there is nothing to fine-tune on", hint="name files with nli, sts, or both")


def check_settings(making: Making, where: str) -> None:
    """Let the verb itself look at its settings: unknown names and impossible values are refused before anything is made."""
    from isogloss import recipes
    from isogloss_papers import verbs

    if making.has_pairs:
        early = {table: making.settings[table] for table in PREPARATION if table in making.settings}
        recipes.parse(early, where=where)
    own = own_settings(making)
    if making.how in verbs.MAKERS and making.how != "random":
        verbs.check(replace(making, settings=own), where)
    elif own:
        raise RecipeError(f'{where}: how = "{making.how}" has no settings', hint=f"leave {', '.join(own)} out")


def own_settings(making: Making) -> dict[str, Any]:
    """The settings of the verb, without those of the preparation of pairs."""
    skipped = PREPARATION if making.has_pairs else ()
    return {key: value for key, value in making.settings.items() if key not in skipped}


def with_overrides(making: Making, overrides: tuple[str, ...]) -> Making:
    """A making with `HOW.key=value` (for one verb) and `pairs|cleaning|leaks.key=value` (for pairs) set."""
    settings = copy.deepcopy(making.settings)
    for one in overrides:
        kind, dot, rest = one.partition(".")
        if not dot or "=" not in rest or kind not in (*TAKES, *PREPARATION):
            raise RecipeError(
                f"--set {one}: expected VERB.key=value",
                hint=f"VERB is one of {', '.join(name for name in TAKES if name != 'published')}, {', '.join(PREPARATION)}",
            )
        if kind == making.how:
            apply_override(settings, rest)
        elif kind in PREPARATION and making.has_pairs:
            apply_override(settings, one)
    return replace(making, settings=settings)

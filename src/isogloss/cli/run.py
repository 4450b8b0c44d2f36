"""`isogloss run`: everything a recipe says; `isogloss quickstart`: the same for a recipe that needs no hub and no data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from isogloss.cli.options import FreshFlag, JsonFlag, OutFolder, ReplaceFlag, SetOption

if TYPE_CHECKING:
    from isogloss.config import Recipe


def run(
    recipe: Annotated[Path, Argument(metavar="RECIPE", help="The recipe, a TOML file; isogloss init writes one.")],
    set_: SetOption = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Run a recipe: read, clean, train, measure, save.

    isogloss run recipes/quickstart.toml --set training.epochs=1
    """
    from isogloss import recipes

    run_and_show(recipes.load(recipe, set_ or []), fresh, replace, json)


def quickstart(
    out: OutFolder = Path("runs/quickstart"),
    set_: SetOption = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Try isogloss: distill an English model into twelve languages.

    isogloss quickstart --out runs/quickstart
    """
    from isogloss import recipes
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import say
    from isogloss.errors import RecipeError
    from isogloss.runs.pipeline import quickstart_recipe

    recipe = recipes.load(quickstart_recipe(), set_ or [], out)
    if not recipe.teacher.model:
        raise RecipeError("quickstart needs a teacher, but teacher.model is empty", hint="use isogloss run without a teacher")
    languages = f"{amount(len(recipe.languages), 'language')}: {', '.join(recipe.languages)}"
    say(f"{recipe.teacher.model} (English) teaches {recipe.student.model} {languages}")
    run_and_show(recipe, fresh, replace, json)


def run_and_show(recipe: "Recipe", fresh: bool, replace: bool, json: bool) -> None:
    """Run a recipe with progress bars, and show the result."""
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import pipeline

    with progress() as bars:
        result = pipeline.run(recipe, bars, fresh, replace)
    show_run(result, json)

"""`isogloss run`: everything a recipe says."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from isogloss.cli.options import FreshFlag, JsonFlag, ReplaceFlag, SetOption


def run(
    recipe: Annotated[Path, Argument(metavar="RECIPE", help="A TOML file; isogloss init writes one.")],
    set_: SetOption = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Run a recipe: read, clean, train, measure, save.

    isogloss run recipes/quickstart.toml --set training.epochs=1
    """
    from isogloss import recipes

    loaded = recipes.load(recipe, set_ or [])  # what is wrong with it is said before the seconds that the imports below take
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import pipeline

    with progress() as bars:
        result = pipeline.run(loaded, bars, fresh, replace)
    show_run(result, json)

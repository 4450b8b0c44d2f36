"""`isogloss forecast`: how many pairs a language needs for a wanted score."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import FreshFlag, JsonFlag, ReplaceFlag, SetOption, settings_as_options
from isogloss.config.forecasting import ForecastSettings


@settings_as_options(
    ForecastSettings,
    skip=[],
    languages={"metavar": "de,fr,…"},
    sizes={"metavar": "N|1/N,…"},
    at={"metavar": "N,N,…"},
)
def forecast(
    recipe: Annotated[Path, Argument(metavar="RECIPE", help="The recipe, a TOML file; isogloss init writes one.")],
    values: dict[str, Any],
    set_: SetOption = None,
    out: Annotated[
        Path | None, Option("--out", metavar="FOLDER", help="Folder for the runs.  [default: output.folder-forecast]")
    ] = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Forecast how many pairs a language needs for a wanted score.

    Runs the recipe on small parts of its pairs and extrapolates their scores.

    isogloss forecast recipe.toml --wanted 95

    isogloss forecast recipe.toml --languages sw --sizes 500,1000,2000
    """
    from isogloss import recipes
    from isogloss.cli.screens.forecast import show
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.runs.forecast import forecast as forecast_scores

    loaded, settings = recipes.load(recipe, set_ or []), ForecastSettings(**values)
    folder = out or Path(f"{loaded.output.folder}-forecast")
    with progress() as bars:
        found = forecast_scores(loaded, folder, settings, bars, fresh, replace)
    if json:
        show_json(found.as_dict())
    else:
        show(found)

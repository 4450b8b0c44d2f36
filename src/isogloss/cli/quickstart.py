"""`isogloss quickstart`: the main job, on models and pairs that need no hub and no data."""

from pathlib import Path

from isogloss.cli.options import FreshFlag, JsonFlag, OutFolder, ReplaceFlag, SetOption


def quickstart(
    out: OutFolder = Path("runs/quickstart"),
    set_: SetOption = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Teach twelve languages to a real English model, here and now.

    isogloss quickstart --out runs/quickstart
    """
    from isogloss import recipes
    from isogloss.amounts import amount
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress, say
    from isogloss.errors import RecipeError
    from isogloss.runs.pipeline import quickstart_recipe, run

    recipe = recipes.load(quickstart_recipe(), set_ or [], out)
    if not recipe.teacher.model:
        raise RecipeError("quickstart shows what a teacher teaches, but teacher.model is empty", hint="isogloss run needs none")
    say(
        f"{recipe.teacher.model} (English) teaches {recipe.student.model} {amount(len(recipe.languages), 'language')}:"
        f" {', '.join(recipe.languages)}"
    )
    with progress() as bars:
        result = run(recipe, bars, fresh, replace)
    show_run(result, json)

"""`isogloss distill`: train a student on pairs, without writing a recipe first."""

from pathlib import Path
from typing import Annotated

from typer import Option

from isogloss.cli.options import (
    FreshFlag,
    JsonFlag,
    LanguageOption,
    LanguagesOption,
    OnErrorOption,
    OutFolder,
    PairFiles,
    PrintRecipeFlag,
    ReplaceFlag,
    SetOption,
    as_languages,
)
from isogloss.cli.recipe_runner import run_recipe


def distill(
    pairs: PairFiles,
    teacher: Annotated[str, Option(help="The model you trust: hub name or folder.")] = "all-MiniLM-L6-v2",
    student: Annotated[str, Option(help="The model that learns: hub name or folder.")] = "multilingual-e5-small",
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    out: OutFolder = Path("runs/distilled"),
    set_: SetOption = None,
    print_recipe: PrintRecipeFlag = False,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Teach a student from pairs, measure it, save it: no recipe.

    isogloss distill en-de.tsv --teacher all-MiniLM-L6-v2 --out runs/german
    """
    from isogloss.runs.presets import distill_recipe

    data = distill_recipe(pairs, out, teacher, student)
    options = {
        "languages": ("--languages", list(as_languages(languages)) or None),
        "pairs.language": ("--language", language),
        "pairs.on_error": ("--on-error", on_error),
    }
    run_recipe(data, "distill", options, set_, fresh=fresh, replace=replace, json=json, print_recipe=print_recipe)

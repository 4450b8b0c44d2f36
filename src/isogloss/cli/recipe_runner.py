"""What all verbs that run a recipe have in common: fill it in, print it or run it, show the result."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def run_recipe(
    data: Mapping[str, Any],
    verb: str,
    options: Mapping[str, tuple[str, Any]],
    overrides: Sequence[str] | None,
    *,
    fresh: bool,
    replace: bool,
    json: bool,
    print_recipe: bool,
) -> None:
    """Run the recipe `data` with the command line's values; `options` maps recipe keys to (option, value), None: not given."""
    from isogloss import recipes

    given = [recipes.FromOption(option, key, value) for key, (option, value) in options.items() if value is not None]
    recipe = recipes.parse(data, [*given, *(overrides or [])], verb)
    if print_recipe:
        sys.stdout.write(recipes.dump(recipe, comments=False, defaults=False))
        return
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import pipeline

    with progress() as bars:
        result = pipeline.run(recipe, bars, fresh, replace)
    show_run(result, json)

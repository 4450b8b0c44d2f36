"""`isogloss doctor`: check this machine and a recipe."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from isogloss.cli.options import JsonFlag, SetOption

LEAST = 30  # columns, however narrow the screen is


def doctor(
    recipe: Annotated[Path | None, Argument(metavar="RECIPE", help="Recipe to check.")] = None,
    set_: SetOption = None,
    json: JsonFlag = False,
) -> None:
    """Check this machine and a recipe before you start a run.

    Checks versions, devices, memory and disk, and the models and pairs of a recipe.

    isogloss doctor recipes/quickstart.toml
    """
    from dataclasses import asdict

    from rich.text import Text

    from isogloss import recipes
    from isogloss.cli.screens.progress import output, safe_text, show_json
    from isogloss.runs.doctor import examine_machine, examine_recipe

    findings = examine_machine()
    if recipe is not None:
        findings += examine_recipe(recipes.load(recipe, set_ or []))
    if json:
        show_json([asdict(finding) for finding in findings])
    else:
        marks = {"good": ("✓", "green"), "note": ("!", "yellow"), "bad": ("✗", "red")}
        wide = max(len(finding.about) for finding in findings)
        for finding in findings:
            first, *more = _wrapped(safe_text(finding.text), output.width - wide - 4) or [""]
            output.print(Text.assemble(marks[finding.verdict], safe_text(f" {finding.about:<{wide}}  {first}")))
            advice = _wrapped(finding.advice, output.width - wide - 6)
            arrows = ("→ ", *["  "] * len(advice))
            for line in (*more, *(arrow + line for arrow, line in zip(arrows, advice, strict=False))):
                output.print(f"{'':<{wide + 4}}{line}")
    if any(finding.verdict == "bad" for finding in findings):
        raise Exit(2)


def _wrapped(text: str, room: int) -> list[str]:
    """Lines that fit beside the names; a path or a command stays whole."""
    import textwrap

    return textwrap.wrap(text, max(LEAST, room), break_long_words=False, break_on_hyphens=False)

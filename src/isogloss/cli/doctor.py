"""`isogloss doctor`: whether this machine, and this recipe, are fit to run."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from isogloss.cli.options import JsonFlag, SetOption


def doctor(
    recipe: Annotated[Path | None, Argument(metavar="RECIPE", help="Also check this recipe's models and pairs.")] = None,
    set_: SetOption = None,
    json: JsonFlag = False,
) -> None:
    """Check this machine and a recipe before an hour is spent.

    Looks at versions, devices, memory and disk, and at a recipe's models and text.

    isogloss doctor recipes/quickstart.toml
    """
    from dataclasses import asdict

    from rich.markup import escape

    from isogloss import recipes
    from isogloss.cli.screen import output, show_json
    from isogloss.runs.doctor import examine_machine, examine_recipe

    findings = examine_machine()
    if recipe is not None:
        findings += examine_recipe(recipes.load(recipe, set_ or []))
    if json:
        show_json([asdict(finding) for finding in findings])
    else:
        marks = {"good": "[green]✓[/]", "note": "[yellow]![/]", "bad": "[red]✗[/]"}
        for finding in findings:
            output.print(f"{marks[finding.verdict]} {finding.about:<24} {escape(finding.text)}", highlight=False)
            if finding.advice:
                output.print(f"  {'':<24} → {escape(finding.advice)}", highlight=False)
    if any(finding.verdict == "bad" for finding in findings):
        raise Exit(2)

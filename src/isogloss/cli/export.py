"""`isogloss export`: a model in the form that another program loads."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from isogloss.cli.options import JsonFlag, given_options, settings_as_options
from isogloss.config.exporting import BudgetSettings, ExportSettings

PRECISIONS = ",".join(ExportSettings.model_fields["precisions"].default)
TARGET_HELP = "What to write: folder, onnx, static.  [default: folder, or onnx with --budget]"


@settings_as_options(
    BudgetSettings,
    skip=[],
    precisions={"default": PRECISIONS, "help": "Precisions of ONNX files: fp32, fp16, int8; --budget tries all."},
)
def export(
    context: Context,
    model: Annotated[str, Argument(metavar="MODEL", help="Finished run, folder or hub name.")],
    values: dict[str, Any],
    to: Annotated[str | None, Option("--to", metavar="TARGET", help=TARGET_HELP)] = None,
    budget: Annotated[
        str | None, Option("--budget", metavar="SIZE", help="Write the best ONNX folder that fits, such as 60MB.")
    ] = None,
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Where to write.  [default: RUN/export/TARGET]")] = None,
    json: JsonFlag = False,
) -> None:
    """Export a model for another program.

    isogloss export runs/quickstart --to onnx

    isogloss export runs/quickstart --budget 60MB
    """
    from isogloss.cli.screens.progress import progress, say, show_json
    from isogloss.exporting.export import export

    if budget is not None:
        _export_within(budget, model, to, out, values, bool(given_options(context, ["precisions"])), json)
        return
    settings = ExportSettings(**{name: values[name] for name in ExportSettings.model_fields})
    with progress() as bars:
        exported = export(model, to or "folder", out, settings=settings, on_progress=bars)
    if json:
        show_json({"folder": str(exported.folder)})
    else:
        say(f"{exported.folder}")


def _export_within(
    budget: str, model: str, to: str | None, out: Path | None, values: dict[str, Any], named: bool, json: bool
) -> None:
    from isogloss.cli.screens.frontier import show_frontier
    from isogloss.cli.screens.progress import progress
    from isogloss.errors import RecipeError
    from isogloss.exporting.budget.search import export_within_budget

    if to not in (None, "onnx"):
        raise RecipeError(f"--budget writes ONNX folders, not --to {to}", hint="leave --to out, or leave --budget out")
    chosen = {name: value for name, value in values.items() if named or name != "precisions"}
    with progress() as bars:
        result = export_within_budget(model, budget, out, settings=BudgetSettings(**chosen), on_progress=bars)
    show_frontier(result, json)

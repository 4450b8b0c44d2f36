"""`isogloss export`: a model in the form that another program loads."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import JsonFlag, settings_as_options
from isogloss.config.exporting import ExportSettings


@settings_as_options(ExportSettings, skip=[])
def export(
    model: Annotated[str, Argument(metavar="MODEL", help="Finished run, folder or hub name.")],
    values: dict[str, Any],
    to: Annotated[str, Option("--to", metavar="TARGET", help="What to write: folder.")] = "folder",
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Where to write.  [default: RUN/export/TARGET]")] = None,
    json: JsonFlag = False,
) -> None:
    """Export a model for another program.

    isogloss export runs/quickstart --to onnx
    """
    from isogloss.cli.screens.progress import progress, say, show_json
    from isogloss.exporting.export import export

    with progress() as bars:
        exported = export(model, to, out, settings=ExportSettings(**values), on_progress=bars)
    if json:
        show_json({"folder": str(exported.folder)})
    else:
        say(f"{exported.folder}")

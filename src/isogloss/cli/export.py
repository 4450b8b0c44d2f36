"""`isogloss export`: a model in the form that another program loads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import JsonFlag, settings_as_options
from isogloss.config.exporting import ExportSettings

if TYPE_CHECKING:
    from isogloss.exporting.export import Artefact, Exported

TARGETS_HELP = "What to write: folder, onnx, openvino."
PRECISIONS = ExportSettings.model_fields["precisions"]


@settings_as_options(
    ExportSettings,
    skip=["precisions"],
    suite={"metavar": "NAME,…"},
    data={"metavar": "FOLDER|hub"},
)
def export(
    model: Annotated[str, Argument(metavar="MODEL", help="Finished run, folder or hub name.")],
    values: dict[str, Any],
    to: Annotated[str, Option("--to", metavar="TARGET", help=TARGETS_HELP)] = "folder",
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Where to write.  [default: RUN/export/TARGET]")] = None,
    precisions: Annotated[str, Option("--precisions", metavar="NAME,…", help=PRECISIONS.description)] = ",".join(
        PRECISIONS.default
    ),
    pairs: Annotated[
        list[str] | None,
        Option("--pairs", metavar="FILE", help="Pairs to measure on; repeatable.  [default: the run's]"),
    ] = None,
    teacher: Annotated[
        str | None, Option(metavar="MODEL", help="Model whose index is searched; '' for none.  [default: the run's]")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a model for other programs, and measure it.

    isogloss export runs/quickstart --to onnx
    """
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.exporting.export import export

    values["precisions"] = tuple(name.strip() for name in precisions.split(","))
    settings = ExportSettings(**values)
    with progress() as bars:
        exported = export(model, to, out, pairs=pairs or (), teacher=teacher, settings=settings, on_progress=bars)
    if json:
        show_json(_as_data(exported))
    else:
        _show(exported)


def _as_data(exported: "Exported") -> dict[str, Any]:
    from isogloss.exporting.output import as_data

    artefacts = [as_data(artefact, exported.folder) for artefact in exported.artefacts]
    return {
        "folder": str(exported.folder),
        "artefacts": artefacts,
        "refused": [{"name": name, "reason": reason} for name, reason in exported.refused.items()],
        "suite": exported.suite,
    }


def _show(exported: "Exported") -> None:
    """A table of what was written, what was refused, and the folder."""
    from isogloss.cli.screens.progress import output, percent, plain_table, say

    if exported.artefacts:
        table = plain_table("artefact", ">MB", ">cosine", ">accuracy", ">points lost")
        for artefact in exported.artefacts:
            cosine, accuracy = f"{artefact.cosine:.4f}", percent(artefact.accuracy)
            table.add_row(artefact.name, f"{artefact.megabytes:,.1f}", cosine, accuracy, f"{artefact.lost:.2f}")
        output.print(table)
        output.print(_measured_by(exported.artefacts[0]))
    for name, reason in exported.refused.items():
        output.print(f"refused: {name} ({reason})")
    say(f"{exported.folder}")


def _measured_by(artefact: "Artefact") -> str:
    in_index = artefact.details.get("measured_by") == "teacher_index"
    where = "in the teacher's index" if in_index else "searching sources by their translations"
    return f"accuracy at 1 on held-out pairs, %, {where}"

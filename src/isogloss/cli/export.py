"""`isogloss export`: a model in the form that another program loads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option

from isogloss.cli.options import JsonFlag, given_options, settings_as_options
from isogloss.config.exporting import BudgetSettings, ExportSettings

if TYPE_CHECKING:
    from isogloss.exporting.export import Artifact, Exported

TARGETS_HELP = "Format: folder, onnx, openvino or static.  [default: folder; onnx with --budget]"
PRECISIONS = ",".join(ExportSettings.model_fields["precisions"].default)
PRECISIONS_HELP = "Files to write: fp32, fp16, int8; --budget tries all."


@settings_as_options(
    BudgetSettings,
    skip=[],
    precisions={"metavar": "NAME,…", "default": PRECISIONS, "help": PRECISIONS_HELP},
    suite={"metavar": "NAME,…"},
    data={"metavar": "FOLDER|hub"},
    trims={"metavar": "NAME,…"},
    layers={"metavar": "N,…"},
    dimensions={"metavar": "N,…"},
)
def export(
    context: Context,
    model: Annotated[str, Argument(metavar="MODEL", help="Finished run, folder or hub name.")],
    *,
    to: Annotated[str | None, Option("--to", metavar="TARGET", help=TARGETS_HELP)] = None,
    budget: Annotated[
        str | None,
        Option("--budget", metavar="SIZE", help="Search for the best ONNX model of at most this size, such as 60MB."),
    ] = None,
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Output folder.  [default: RUN/export/TARGET]")] = None,
    pairs: Annotated[
        list[str] | None,
        Option("--pairs", metavar="FILE", help="Pairs to evaluate on; repeatable.  [default: the run's held-out pairs]"),
    ] = None,
    teacher: Annotated[
        str | None, Option(metavar="MODEL", help="Evaluate searching this model's index; '' for none.  [default: the run's]")
    ] = None,
    values: dict[str, Any],
    scores: Annotated[
        list[Path] | None,
        Option("--scores", metavar="FILE", help="Scores for the model card, from isogloss evaluate --json; repeatable."),
    ] = None,
    push: Annotated[
        str | None, Option("--push", metavar="REPOSITORY", help="Upload the folder to this Hugging Face Hub repository.")
    ] = None,
    private: Annotated[bool, Option("--private", help="With --push: create the repository as private.")] = False,
    add_to_repository: Annotated[
        bool, Option("--add-to-repository", help="With --push: allow uploading to an existing repository.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Export a model to ONNX, OpenVINO or a static model.

    isogloss export runs/quickstart --to onnx

    isogloss export runs/quickstart --budget 60MB

    isogloss export runs/quickstart --push me/my-model
    """
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.exporting.export import export

    refuse_ignored(context, push, scores)
    if budget is not None:
        if not given_options(context, ["precisions"]):
            del values["precisions"]  # the default is that of other exports
        _export_within(budget, to, BudgetSettings(**values), json, model=model, out=out, pairs=pairs or (), teacher=teacher)
        return
    settings = ExportSettings(**{name: values[name] for name in ExportSettings.model_fields})
    with progress() as bars:
        exported = export(
            model,
            to or "folder",
            out,
            pairs=pairs or (),
            teacher=teacher,
            settings=settings,
            scores=scores or (),
            on_progress=bars,
        )
        url = None if push is None else _push(exported.folder, push, private, add_to_repository)
    if json:
        show_json(_as_data(exported) | ({} if url is None else {"url": url}))
    else:
        _show(exported, url)


def refuse_ignored(context: Context, push: str | None, scores: list[Path] | None) -> None:
    """Raise for options that would have no effect."""
    from isogloss.errors import RecipeError

    without_push = given_options(context, ["private", "add_to_repository"])
    if push is None and without_push:
        raise RecipeError(f"{without_push[0]} works only with --push", hint="name a repository: --push me/my-model")
    if given_options(context, ["data"]) and not given_options(context, ["suite"]):
        raise RecipeError("--data works only with --suite", hint="name test sets: --suite tatoeba-14")
    if given_options(context, ["budget", "suite"]) == ["--budget", "--suite"]:
        hint = "measure the folder afterwards: isogloss evaluate MODEL onnx:FOLDER --suite tatoeba-14"
        raise RecipeError("--suite does not work with --budget", hint=hint)
    if given_options(context, ["budget"]) and (push is not None or scores):
        raise RecipeError(
            f"{'--push' if push else '--scores'} does not work with --budget",
            hint="look at the folder first, then: isogloss export FOLDER --push REPOSITORY",
        )


def _push(folder: Path, repository: str, private: bool, exist_ok: bool) -> str:
    from isogloss.models.hub import push_folder

    return push_folder(folder, repository, private=private or None, exist_ok=exist_ok)


def _export_within(budget: str, to: str | None, settings: BudgetSettings, json: bool, **given: Any) -> None:  # noqa: ANN401
    """Search, and show what was found; `given` is what else `export_within_budget` takes."""
    from isogloss.cli.screens.frontier import show_frontier
    from isogloss.cli.screens.progress import progress
    from isogloss.errors import RecipeError
    from isogloss.exporting.budget.search import export_within_budget

    if to not in (None, "onnx"):
        raise RecipeError(f"--budget writes ONNX folders, not --to {to}", hint="leave --to out, or leave --budget out")
    with progress() as bars:
        result = export_within_budget(budget=budget, settings=settings, on_progress=bars, **given)
    show_frontier(result, json)


def _as_data(exported: "Exported") -> dict[str, Any]:
    from isogloss.exporting.output import as_data

    artifacts = [as_data(artifact, exported.folder) for artifact in exported.artifacts]
    return {
        "folder": str(exported.folder),
        "artifacts": artifacts,
        "refused": [{"name": name, "reason": reason} for name, reason in exported.refused.items()],
        "suite": None if exported.suite is None else exported.suite.as_dict(),
    }


def _show(exported: "Exported", url: str | None = None) -> None:
    """A table of what was written, what was refused, and the folder."""
    from isogloss.cli.screens.progress import output, percent, plain_table, say
    from isogloss.cli.screens.suites import show as show_suite

    if exported.artifacts:
        table = plain_table("file", ">MB", ">cosine", ">accuracy", ">points lost")
        for artifact in exported.artifacts:
            cosine, accuracy = f"{artifact.cosine:.4f}", percent(artifact.accuracy)
            table.add_row(artifact.name, f"{artifact.megabytes:,.1f}", cosine, accuracy, f"{artifact.lost:.2f}")
        output.print(table)
        output.print(_measured_by(exported.artifacts[0]))
    for name, reason in exported.refused.items():
        output.print(f"refused: {name} ({reason})")
    if exported.suite is not None:
        output.print()
        show_suite(exported.suite)
    say(f"{exported.folder}")
    if url is not None:
        say(f"uploaded: {url}")


def _measured_by(artifact: "Artifact") -> str:
    in_index = artifact.details.get("measured_by") == "teacher_index"
    where = "in the teacher's index" if in_index else "searching sources by their translations"
    return f"accuracy at 1 on held-out pairs, %, {where}"

"""`isogloss serve`: embeddings over HTTP."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import settings_as_options
from isogloss.config.serving import ServeSettings

if TYPE_CHECKING:
    from isogloss.serve.server import Started


@settings_as_options(ServeSettings, skip=[], host={"metavar": "ADDRESS"}, api_keys={"metavar": "FILE"})
def serve(
    models: Annotated[list[str], Argument(metavar="MODEL", help="Finished runs, folders, hub names or onnx:FOLDER.")],
    values: dict[str, Any],
    name: Annotated[
        list[str] | None, Option("--name", metavar="NAME", help="Model name in the API; repeatable, in the order of models.")
    ] = None,
) -> None:
    """Serve embeddings over HTTP with an OpenAI-compatible API.

    isogloss serve runs/quickstart
    """
    import logging

    from isogloss.cli.screens.progress import progress, say
    from isogloss.serve.server import serve

    if values["log_requests"]:
        logging.getLogger("isogloss.serve").setLevel(logging.INFO)
    with progress() as bars:
        serve(models, name or [], ServeSettings(**values), lambda started: say(_sentence(started)), bars)
    say("stopped; all accepted requests were answered")


def _sentence(started: "Started") -> str:
    """Where the service is and what it serves, in one line; before it, a line for each note."""
    models = ", ".join(f"{one.name} ({one.precision} on {one.device})" for one in started.models)
    url = started.address
    return "\n".join([*started.notes, f"serving {models} at {url}v1 (page: {url})"])

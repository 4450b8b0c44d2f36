"""`isogloss serve`: embeddings over HTTP."""

from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import settings_as_options
from isogloss.config.serving import ServeSettings


@settings_as_options(ServeSettings, skip=[])
def serve(
    models: Annotated[list[str], Argument(metavar="MODEL...", help="Finished runs, folders, hub names or onnx:FOLDER.")],
    values: dict[str, Any],
    name: Annotated[list[str] | None, Option("--name", metavar="NAME", help="What clients call a model; repeatable.")] = None,
) -> None:
    """Serve embeddings over HTTP as the OpenAI API does.

    isogloss serve runs/quickstart
    """
    from isogloss.serve.server import serve

    serve(models, name or [], ServeSettings(**values))

"""Start the service: load the models, listen, and stop in order."""

from collections.abc import Sequence

from isogloss.config.serving import ServeSettings
from isogloss.errors import IsoglossError, optional_package
from isogloss.serve.engine import open_engine, served_name


def serve(models: Sequence[str], names: Sequence[str] = (), settings: ServeSettings | None = None) -> None:
    """Serve `models` over HTTP, until a signal comes."""
    settings = settings or ServeSettings()
    missing = IsoglossError("isogloss serve needs FastAPI and uvicorn", hint="pip install 'isogloss[serve]'")
    uvicorn = optional_package("uvicorn", missing)
    optional_package("fastapi", missing)
    from isogloss.serve.app import create_app

    given = [*names, *map(served_name, models[len(names) :])]
    engines = [open_engine(model, name, settings.device) for model, name in zip(models, given, strict=True)]
    app = create_app(engines, settings)
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning", access_log=False)

"""The HTTP routes: embeddings and models as the OpenAI API has them, and the page."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from isogloss.config.serving import ServeSettings
from isogloss.serve import page_files
from isogloss.serve.engine import Engine
from isogloss.serve.protocol import EmbeddingsRequest, Model, error_body
from isogloss.serve.service import Service


def create_app(engines: Sequence[Engine], settings: ServeSettings) -> FastAPI:
    """The service over loaded models."""
    service = Service(engines, settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.workers.start()
        yield
        service.workers.stop()

    app = FastAPI(title="isogloss", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(api_routes(service))
    app.include_router(page_files.router)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    return app


def api_routes(service: Service) -> APIRouter:
    """The OpenAI API."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/embeddings")
    async def embeddings(body: EmbeddingsRequest) -> Response:
        """Embed texts or token ids."""
        return Response(to_json(await service.embed(body)), media_type="application/json")

    @routes.get("/models")
    async def models() -> dict[str, object]:
        """The models that are served."""
        return {"object": "list", "data": list(map(service.described, service.engines.values()))}

    @routes.get("/models/{name:path}")
    async def model(name: str) -> Model:
        """One of the models."""
        return service.described(service.engine(name))

    return routes


def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse(error_body(str(error.detail), "invalid_request_error"), error.status_code, error.headers)


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"][1:]) or None
    return JSONResponse(error_body(f"{param}: {first['msg']}", "invalid_request_error", None, param), 422)

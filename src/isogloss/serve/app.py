"""The HTTP routes: embeddings and models as the OpenAI API has them, health, metrics, and the page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.types import ASGIApp

from isogloss.serve import page_files
from isogloss.serve.bodies import Disconnected
from isogloss.serve.gate import Gate
from isogloss.serve.keys import ApiKeys
from isogloss.serve.metrics import CONTENT_TYPE
from isogloss.serve.protocol import EmbeddingsRequest, EmbeddingsResponse, Error, Model, ModelList, State
from isogloss.serve.refusals import answer_refusals
from isogloss.serve.responses import PartedResponse
from isogloss.serve.service import Service
from isogloss.web import user_agent

REASONS = {
    400: "The body is not JSON.",
    401: "The API key is missing or wrong.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The request is too large.",
    422: "The request is not valid, or the model cannot answer it.",
    429: "The queue is full; Retry-After estimates how long it takes to empty.",
    500: "The model failed.",
    503: "The service is starting or shutting down.",
}
CLIENT_GONE = 499  # what proxies log; nobody receives it


def create_app(service: Service, keys: ApiKeys | None = None) -> ASGIApp:
    """The application of a service; it answers 503 until models are opened in it."""
    keys = keys or ApiKeys([])

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="isogloss",
        version=user_agent().partition("/")[2],
        description="Sentence embeddings, as the OpenAI API has them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(api_routes(service))
    app.include_router(health_routes(service))
    app.include_router(page_files.router)
    answer_refusals(app)
    app.openapi = lambda: openapi_document(app, service, keys)  # type: ignore[method-assign]
    return Gate(app, service, keys)


def api_routes(service: Service) -> APIRouter:
    """The OpenAI API."""
    routes = APIRouter(prefix="/v1")
    body = {"required": True, "content": {"application/json": {"schema": EmbeddingsRequest.model_json_schema()}}}

    @routes.post(
        "/embeddings",
        response_model=EmbeddingsResponse,
        responses=refusals(400, 401, 404, 408, 413, 422, 429, 500, 503),
        openapi_extra={"requestBody": body},
    )
    async def embeddings(request: Request) -> Response:
        """Embed texts or token ids."""
        try:
            answer = await service.embed(request.scope, request.receive)
        except Disconnected:
            return Response(status_code=CLIENT_GONE)
        return PartedResponse(answer)

    @routes.get("/models", responses=refusals(401, 503))
    async def models() -> ModelList:
        """The models that are served."""
        return ModelList(data=list(map(service.described, service.models.values())))

    @routes.get("/models/{name:path}", responses=refusals(401, 404, 503))
    async def model(name: str) -> Model:
        """One of the models."""
        return service.described(service.model(name))

    return routes


def health_routes(service: Service) -> APIRouter:
    """What orchestrators and Prometheus ask for."""
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> State:
        """Whether the process answers."""
        return State(status="ok")

    @routes.get("/readyz", responses=refusals(503))
    async def readyz() -> State:
        """Whether the models are loaded and requests are accepted."""
        service.refuse_unless_ready()
        return State(status=service.state)

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **refusals(401)})
    async def metrics() -> Response:
        """Metrics in Prometheus' format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return routes


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its documentation."""
    return {status: {"model": Error, "description": REASONS[status]} for status in statuses}


def openapi_document(app: FastAPI, service: Service, keys: ApiKeys) -> dict[str, Any]:
    """The OpenAPI document, with the limits of this service: the most inputs, the largest token id, sizes of vectors."""
    document: dict[str, Any] = FastAPI.openapi(app)
    schema = limited(EmbeddingsRequest.model_json_schema(), service)
    document["paths"]["/v1/embeddings"]["post"]["requestBody"]["content"]["application/json"]["schema"] = schema
    if keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            if not path.endswith("z"):
                for operation in methods.values():
                    operation["security"] = [{"key": []}]
    return document


def limited(schema: dict[str, Any], service: Service) -> dict[str, Any]:
    """The schema of requests, with what the models of the service allow."""
    engines = [served.engine for served in service.models.values()]
    for form in schema["properties"]["input"]["oneOf"]:
        if form["type"] == "array" and form["items"]["type"] != "integer":
            form["maxItems"] = service.settings.max_inputs
        row = form["items"] if form.get("items", {}).get("type") == "array" else form
        if row.get("items", {}).get("type") == "integer" and engines:
            row["maxItems"] = max(engine.max_tokens for engine in engines)
            row["items"]["maximum"] = max(engine.vocabulary for engine in engines) - 1
    if engines:
        sizes = {size for engine in engines for size in (engine.dimension, *engine.facts.matryoshka)}
        schema["properties"]["dimensions"]["anyOf"][0] = {"type": "integer", "enum": sorted(sizes)}
    return schema

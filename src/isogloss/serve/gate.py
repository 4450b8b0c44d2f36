"""What every request passes before it reaches a route: the API key, whether the service is ready, counting and logging."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isogloss.serve.keys import ApiKeys
from isogloss.serve.refusals import Refused
from isogloss.serve.service import Service

logger = logging.getLogger(__name__)

API = "/v1/"
OPEN = ("/", "/healthz", "/readyz")  # without a key: the page, which sends its key to the API, and what probes ask
OPEN_BELOW = "/page/"
ROUTES = {"/v1/embeddings": "embeddings", "/v1/models": "models", "/metrics": "metrics", **dict.fromkeys(OPEN[1:], "health")}


class Gate:
    """ASGI middleware around the service's routes."""

    def __init__(self, app: ASGIApp, service: Service, keys: ApiKeys) -> None:
        self.app, self.service, self.keys = app, service, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            try:
                self._refuse(scope)
            except Refused as refused:
                await refused.response()(scope, receive, noting_status)
            else:
                await self.app(scope, receive, noting_status)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _refuse(self, scope: Scope) -> None:
        path = scope["path"]
        if self.keys and path not in OPEN and not path.startswith(OPEN_BELOW):
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not self.keys.admit(given.decode("latin-1")):
                reason = "the API key is wrong" if given else "an API key is needed: Authorization: Bearer KEY"
                raise Refused(401, reason, "invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        if path.startswith(API):
            self.service.refuse_unless_ready()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count the request, and log it where the log level asks for that; status 0: the client went away."""
        self.service.metrics.requests.labels(ROUTES.get(scope["path"], "other"), str(status or "gone")).inc()
        if logger.isEnabledFor(logging.INFO):
            host = (scope.get("client") or ("-",))[0]
            outcome = status or "gone"
            logger.info("%s %s %s %s %.1f ms", host, scope["method"], scope["path"], outcome, 1000 * seconds)

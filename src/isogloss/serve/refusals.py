"""Why a request gets no embeddings: a status and a reason as in the OpenAI API, whose client then raises typed errors."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from isogloss.shown import printable

KINDS = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}
INVALID = "invalid_request_error"
CLOSE = {"Connection": "close"}


class Refused(Exception):
    """A request that is not answered. `retry_after` says when the same request may be answered, in seconds."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": str(retry_after)})

    def response(self) -> JSONResponse:
        """The response."""
        return JSONResponse(error_body(self.status, self.message, self.code, self.param), self.status, self.headers)


def error_body(status: int, message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error as the OpenAI API has it."""
    kind = KINDS.get(status, INVALID)
    return {"error": {"message": printable(message), "type": kind, "param": param, "code": code}}


def answer_refusals(app: FastAPI) -> None:
    """Give every error of the service that form: ours, those of the framework (404, 405), and those that should not happen."""

    async def refused(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        return error.response()

    async def by_framework(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        asked = f": {request.method} {request.url.path}" if error.status_code in (404, 405) else ""
        reason = f"{error.detail}{asked}"
        return JSONResponse(error_body(error.status_code, reason), error.status_code, error.headers)

    async def broken(_request: Request, _error: Exception) -> JSONResponse:
        reason = HTTPStatus.INTERNAL_SERVER_ERROR.phrase
        return JSONResponse(error_body(500, f"{reason}: the log of the service has the details"), 500)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, by_framework)
    app.add_exception_handler(Exception, broken)

"""uvicorn's connections with two time limits that it does not have, and a shutdown that loses no request.

A connection is ended if it brings no complete request in time (a client that sends a header a minute, one that never reads its
answer), or if the application asks for it. At shutdown an idle connection is kept for a moment: a request that is on its way is
answered with 503 then, not with a connection that breaks.
"""

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from isogloss.serve.responses import ABORT

LINGER_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 75  # longer than the proxies and clients that keep connections, so that they close first


class Connection(H11Protocol):
    """A connection of the service."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **options)
        inner, self.idle_since = self.app, self.loop.time()

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT] = self.transport.abort
            await inner(scope, receive, send)

        self.app = with_abort

    def on_response_complete(self) -> None:
        """Called when a response was sent."""
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def end_if_idle_for(self, seconds: float) -> None:
        """End the connection if it has had no complete request for so long."""
        if self._is_idle() and self.loop.time() - self.idle_since > seconds:
            self.transport.abort()

    def shutdown(self) -> None:
        """Called by uvicorn when the service stops: end this connection after its response, or soon."""
        if self._is_idle():
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._end)
        else:
            super().shutdown()

    def _end(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

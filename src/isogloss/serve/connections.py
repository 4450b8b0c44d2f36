"""uvicorn's connections with two time limits that it does not have, and a shutdown that loses no request.

A connection is ended if it brings no complete request in time (a client that sends a header a minute), and if the client does
not read its response. At shutdown an idle connection is kept for a moment: a request that is on its way is answered with 503
then, not with a connection that breaks.
"""

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

LINGER_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 75  # longer than the proxies and clients that keep connections, so that they close first


class Connection(H11Protocol):
    """A connection of the service. `send_seconds` is how long a client may take to read a part of a response."""

    send_seconds = 30.0

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **options)
        inner, self.idle_since = self.app, self.loop.time()

        async def timed(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_in_time(message: Message) -> None:
                if not self.flow.write_paused:  # nothing to wait for
                    await send(message)
                    return
                try:
                    async with asyncio.timeout(self.send_seconds):
                        await send(message)
                except TimeoutError:
                    self.transport.abort()
                    await asyncio.sleep(0)  # uvicorn learns that the connection is gone

            await inner(scope, receive, send_in_time)

        self.app = timed

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

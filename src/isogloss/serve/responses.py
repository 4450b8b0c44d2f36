"""Responses that a slow client cannot hold for long: they are sent in parts, and each part has a time limit."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PART_BYTES = 64 * 1024
ABORT = "isogloss.abort"  # in the scope: ends the connection at once (`connections`)


class TimedResponse(Response):
    """JSON of any length. If the client does not take a part of it in time, the connection is ended."""

    media_type = "application/json"

    def __init__(self, content: bytes, seconds: float) -> None:
        super().__init__(content)
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        content = memoryview(self.body)
        for start in range(0, max(len(content), 1), PART_BYTES):
            end = start + PART_BYTES
            message = {"type": "http.response.body", "body": bytes(content[start:end]), "more_body": end < len(content)}
            try:
                async with asyncio.timeout(self.seconds):
                    await send(message)  # waits while the client has not taken the part before
            except TimeoutError:
                scope.get(ABORT, lambda: None)()
                await asyncio.sleep(0)  # uvicorn learns that the connection is gone
                return

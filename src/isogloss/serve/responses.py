"""Responses of any length, sent in parts: between them the connection notices a client that does not read."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PART_BYTES = 64 * 1024


class PartedResponse(Response):
    """JSON of any length."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        content = memoryview(self.body)
        for start in range(0, max(len(content), 1), PART_BYTES):
            end = start + PART_BYTES
            await send({"type": "http.response.body", "body": bytes(content[start:end]), "more_body": end < len(content)})

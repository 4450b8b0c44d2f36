"""Read request bodies within limits of size, time and memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive, Scope

from isogloss.serve.refusals import CLOSE, Refused
from isogloss.web import whole_number

MOST_TOGETHER = 8  # bodies of the largest size that are in memory at the same time
READ_AND_DROPPED = 8  # times the limit: so much of a body that is too large is read, so that its sender reads the answer


class Disconnected(Exception):
    """The client has gone."""


class Bodies:
    """The bodies of all requests that are being read or tokenized."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self.most_bytes, self.seconds, self.held = most_bytes, seconds, 0

    @asynccontextmanager
    async def body(self, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """The body of a request; its memory is counted until the block ends."""
        self._refuse_declared(scope)
        parts: list[bytes] = []
        try:
            await self._in_time(receive, parts)
            yield b"".join(parts)
        finally:
            self.held -= sum(map(len, parts))

    async def _in_time(self, receive: Receive, parts: list[bytes]) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await self._read(receive, parts)
        except TimeoutError:
            message = f"the body did not arrive within {self.seconds:g} seconds"
            raise Refused(408, message, "request_timeout", headers=CLOSE) from None

    async def _read(self, receive: Receive, parts: list[bytes]) -> None:
        size, more = 0, True
        while more:
            part, more = await _next_part(receive)
            size += len(part)
            if size > self.most_bytes:
                await self._drop_rest(receive, more)
                raise self._too_large()
            if self.held + len(part) > MOST_TOGETHER * self.most_bytes:
                await self._drop_rest(receive, more)
                raise Refused(429, "too many large requests are being read; try again later", "queue_full", None, 1)
            parts.append(part)
            self.held += len(part)

    async def _drop_rest(self, receive: Receive, more: bool) -> None:
        """Read on without keeping anything, up to a point: a client that is still sending does not see an answer."""
        size = 0
        while more:
            part, more = await _next_part(receive)
            size += len(part)
            if size > READ_AND_DROPPED * self.most_bytes:
                raise self._too_large(closes=True)

    def _refuse_declared(self, scope: Scope) -> None:
        found = next((value for key, value in scope["headers"] if key == b"content-length"), b"")
        declared = whole_number(found.decode("latin-1"))
        if declared is not None and declared > READ_AND_DROPPED * self.most_bytes:
            raise self._too_large(closes=True)

    def _too_large(self, closes: bool = False) -> Refused:
        reason = f"the body is larger than {self.most_bytes / 2**20:g} MiB"
        return Refused(413, reason, "request_too_large", headers=CLOSE if closes else None)


async def _next_part(receive: Receive) -> tuple[bytes, bool]:
    """A part of the body, and whether more follows."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message.get("body", b""), message.get("more_body", False)

"""A service with the OpenAI API: POST {"model": …, "input": […]} to …/v1/embeddings.

The model is named in the address, `http://host/v1/embeddings#name`, or in $ISOGLOSS_ENDPOINT_MODEL. A service may change a
model without renaming it: `#name;revision=2` declares a revision, which is part of the fingerprint and not sent. The key is in
$ISOGLOSS_ENDPOINT_KEY or $OPENAI_API_KEY; it is never shown, nor sent to another address. If the service is busy (429, 5xx) or
unreachable, requests are repeated after the time it asks for, or with exponential backoff.
"""

import base64
import http.client
import json
import os
import time
import urllib.error
from contextlib import suppress
from typing import Any

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.shapes import COUNT, TEXT, Leaf, check, parse_json
from isogloss.shown import MASK, masked
from isogloss.storage import content_hash
from isogloss.types import FloatArray
from isogloss.web import checked_key, parse_url, send

LIST = Leaf("a list", lambda value: isinstance(value, list))  # numpy checks the numbers
RESPONSE = {"data": [{"index": COUNT, "embedding": (LIST, TEXT)}]}
MAX_RESPONSE, MAX_REASON = 64 * 2**20, 2**16  # bytes
REVISION = ";revision="
TIMEOUT_SECONDS, TRIES, FIRST_WAIT, MAX_WAIT = 60.0, 6, 0.5, 30.0
HINTS = dict.fromkeys((401, 403), "set ISOGLOSS_ENDPOINT_KEY or OPENAI_API_KEY")
HINTS |= dict.fromkeys((400, 404, 422), "does it have this model?")
BUSY = {408, 409, 425, 429, 500, 502, 503, 504}


class Endpoint(ExternalEncoder):
    """A model behind an HTTP service."""

    batch_size = 64

    def __init__(self, address: str, tries: int = TRIES, first_wait: float = FIRST_WAIT) -> None:
        self._url, _, model = address.partition("#")
        model, _, self.revision = model.partition(REVISION)
        self.url = masked(self._url)  # for messages: an address may contain a key
        self.model = model or os.environ.get("ISOGLOSS_ENDPOINT_MODEL", "")
        self.name = f"{self.url}#{self.model}" if self.model else self.url
        self._tries, self._first_wait = tries, first_wait
        if not self.model:
            raise ModelError(
                f"{address}: no model is named", hint="write http://host/v1/embeddings#name, or set ISOGLOSS_ENDPOINT_MODEL"
            )
        if f"={MASK}" in self._url:
            raise ModelError(f"{address}: the key in this address was masked", hint="write the key itself instead of ***")
        parse_url(self._url)
        _key()

    def _identity(self) -> str:
        """The address, the model and the declared revision: the weights cannot be seen from here."""
        return content_hash("endpoint", self.url, self.model, *([self.revision] if self.revision else []))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        # Services refuse empty input; a space tokenizes to the same.
        response = self._request({"model": self.model, "input": [text or " " for text in texts]})
        try:
            rows = sorted(check(response, RESPONSE)["data"], key=lambda row: int(row["index"]))
            return np.stack([_vector(row["embedding"]) for row in rows])
        except (ValueError, TypeError, OverflowError) as error:  # base64 raises ValueErrors
            raise ModelError(
                f"{self.url}: the response does not follow the OpenAI API ({str(error)[:80]})",
                hint='it should be {"data": [{"index": 0, "embedding": […]}, …]}',
            ) from error

    def _request(self, payload: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
        pause, problem = self._first_wait, ""
        for attempt in range(self._tries):
            try:
                return self._send(payload)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.reason}"
                if error.code not in BUSY:
                    raise ModelError(
                        f"{self.url}: {problem}{_message(error)}",
                        hint=HINTS.get(error.code, "see the documentation of the service"),
                    ) from error
                with suppress(ValueError):  # a date, say
                    pause = max(0.0, float(error.headers.get("Retry-After", "").encode("ascii")))
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", "") or error)
            if attempt + 1 < self._tries:
                time.sleep(min(pause, MAX_WAIT))
                pause *= 2
        raise ModelError(
            f"{self.url}: no answer after {amount(self._tries, 'try', 'tries')} ({problem})", hint="is the service up?"
        )

    def _send(self, payload: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
        headers = {"Content-Type": "application/json"}
        with send(self._url, TIMEOUT_SECONDS, headers, _key(), json.dumps(payload).encode()) as response:
            body = response.read(MAX_RESPONSE + 1)
        if len(body) > MAX_RESPONSE:
            raise ModelError(f"{self.url}: the response is too large", hint="is it the address of …/v1/embeddings?")
        try:
            return parse_json(body)
        except ValueError as error:
            raise ModelError(f"{self.url}: the response is not JSON", hint="is it the address of …/v1/embeddings?") from error


def _key() -> str:
    for variable in ("ISOGLOSS_ENDPOINT_KEY", "OPENAI_API_KEY"):
        if key := checked_key(os.environ.get(variable, ""), variable):
            return key
    return ""


def _vector(embedding: "list[float] | str") -> FloatArray:
    """A list of numbers, or float32 bytes in base64."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    with np.errstate(over="ignore"):  # infinities are refused later, with their sentence
        return np.asarray(embedding, dtype=np.float32)


def _message(error: urllib.error.HTTPError) -> str:
    """The error message of the service, if there is one."""
    try:
        message = check(parse_json(error.read(MAX_REASON)), {"error": (TEXT, {"message": TEXT})})["error"]
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    return f" ({(message['message'] if isinstance(message, dict) else message)[:160]})"

"""A service in the OpenAI style: POST {"model": …, "input": […]} to …/v1/embeddings.

The model is named in the address, `http://host/v1/embeddings#name`, or in $ISOGLOSS_ENDPOINT_MODEL; the key is in
$ISOGLOSS_ENDPOINT_KEY or $OPENAI_API_KEY, and is never shown, nor sent to another address. A service that is busy (429, 5xx)
or out of reach is asked again, after as long as it says, or twice as long each time.
"""

import base64
import http.client
import json
import os
import time
import urllib.error
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.distinct import each_once
from isogloss.progress import OnProgress, silent
from isogloss.shapes import COUNT, TEXT, Either, Leaf, check, parse_json
from isogloss.shown import MASK, masked
from isogloss.storage import content_hash
from isogloss.types import FloatArray
from isogloss.web import checked_key, parse_url, send

LIST = Leaf("a list", lambda value: isinstance(value, list))  # its many numbers are checked by numpy
ANSWER = {"data": [{"index": COUNT, "embedding": Either(LIST, TEXT)}]}
LARGEST_ANSWER, LONGEST_REASON = 64 * 2**20, 2**16  # bytes
AT_ONCE = 64
TIMEOUT_SECONDS, TRIES, FIRST_WAIT, LONGEST_WAIT = 60.0, 6, 0.5, 30.0
BUSY = {408, 409, 425, 429, 500, 502, 503, 504}


class Endpoint:
    """A service as a model."""

    def __init__(
        self, address: str, timeout: float = TIMEOUT_SECONDS, tries: int = TRIES, first_wait: float = FIRST_WAIT
    ) -> None:
        self._url, _, named = address.partition("#")
        self.url = masked(self._url)  # to show; a key may be part of the address
        self.model = named or os.environ.get("ISOGLOSS_ENDPOINT_MODEL", "")
        self.name = f"{self.url}#{self.model}" if self.model else self.url
        self._timeout, self._tries, self._first_wait = timeout, tries, first_wait
        if not self.model:
            raise ModelError(
                f"{address}: which model?", hint="write http://host/v1/embeddings#name, or set ISOGLOSS_ENDPOINT_MODEL"
            )
        if f"={MASK}" in self._url:
            raise ModelError(f"{address}: the key in this address was masked", hint="write the key itself instead of ***")
        parse_url(self._url)
        _key()

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; the service is asked for one to know."""
        return int(self.encode(["."]).shape[1])

    @property
    def fingerprint(self) -> str:
        """Names the address and the model. A service that changes its model under the same name cannot be told."""
        return content_hash("endpoint", self.url, self.model)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, each distinct one computed once."""
        return each_once(texts, self._some, AT_ONCE, self.name, on_progress, stage)

    def _some(self, texts: list[str]) -> FloatArray:
        # Services refuse empty input; a space is what is left of it after tokenizing.
        answer = self._asked({"model": self.model, "input": [text or " " for text in texts]})
        try:
            rows = sorted(check(answer, ANSWER)["data"], key=lambda row: int(row["index"]))
            return np.stack([_vector(row["embedding"]) for row in rows])
        except (ValueError, TypeError, OverflowError) as error:  # base64's own errors are ValueErrors
            raise ModelError(
                f"{self.url}: the answer is not in the OpenAI style ({str(error)[:80]})",
                hint='it should be {"data": [{"index": 0, "embedding": […]}, …]}',
            ) from error

    def _asked(self, question: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
        pause, problem = self._first_wait, ""
        for attempt in range(self._tries):
            try:
                return self._once(question)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.reason}"
                if error.code not in BUSY:
                    raise ModelError(f"{self.url}: {problem}{_said(error)}", hint=_advice(error.code)) from error
                pause = _asked_pause(error.headers.get("Retry-After", ""), pause)
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", "") or error)
            if attempt + 1 < self._tries:
                time.sleep(min(pause, LONGEST_WAIT))
                pause *= 2
        raise ModelError(
            f"{self.url}: no answer after {amount(self._tries, 'try', 'tries')} ({problem})", hint="is the service up?"
        )

    def _once(self, question: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
        headers = {"Content-Type": "application/json"}
        with send(self._url, self._timeout, headers, _key(), json.dumps(question).encode()) as response:
            body = response.read(LARGEST_ANSWER + 1)
        if len(body) > LARGEST_ANSWER:
            raise ModelError(f"{self.url}: the answer is too long to be one", hint="is it the address of …/v1/embeddings?")
        try:
            return parse_json(body)
        except ValueError as error:
            raise ModelError(f"{self.url}: the answer is not JSON", hint="is it the address of …/v1/embeddings?") from error


def _key() -> str:
    for variable in ("ISOGLOSS_ENDPOINT_KEY", "OPENAI_API_KEY"):
        if key := checked_key(os.environ.get(variable, ""), variable):
            return key
    return ""


def _asked_pause(told: str, usual: float) -> float:
    """Seconds of a Retry-After header; dates are left to the usual pause."""
    try:
        return max(0.0, float(told)) if told.isascii() else usual
    except ValueError:
        return usual


def _vector(told: "list[float] | str") -> FloatArray:
    """Numbers, or the bytes of them in base64."""
    if isinstance(told, str):
        return np.frombuffer(base64.b64decode(told, validate=True), dtype="<f4").astype(np.float32)
    with np.errstate(over="ignore"):  # what is no number afterwards is refused with its sentence
        return np.asarray(told, dtype=np.float32)


def _said(error: urllib.error.HTTPError) -> str:
    """What the service itself said, if it said it in a line."""
    try:
        told = check(parse_json(error.read(LONGEST_REASON)), {"error": Either(TEXT, {"message": TEXT})})["error"]
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    return f" ({(told['message'] if isinstance(told, dict) else told)[:160]})"


def _advice(code: int) -> str:
    if code in (401, 403):
        return "set ISOGLOSS_ENDPOINT_KEY or OPENAI_API_KEY"
    return "does it have this model?" if code in (400, 404, 422) else "see what the service says"

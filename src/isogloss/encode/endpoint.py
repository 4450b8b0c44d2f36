"""A service in the OpenAI style: POST {"model": …, "input": […]} to …/v1/embeddings.

The model is named in the address, `http://host/v1/embeddings#name`, or in $ISOGLOSS_ENDPOINT_MODEL; the key is in
$ISOGLOSS_ENDPOINT_KEY or $OPENAI_API_KEY, and is never shown. A service that is busy (429, 5xx) or out of reach is asked
again, after as long as it says, or twice as long each time.
"""

import base64
import binascii
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from isogloss.amounts import amount
from isogloss.encode.distinct import each_once
from isogloss.errors import ModelError
from isogloss.progress import OnProgress, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray

AT_ONCE = 64
TIMEOUT_SECONDS, TRIES, FIRST_WAIT, LONGEST_WAIT = 60.0, 6, 0.5, 30.0
BUSY = {408, 409, 425, 429, 500, 502, 503, 504}


class Endpoint:
    """A service as a model."""

    def __init__(
        self, address: str, timeout: float = TIMEOUT_SECONDS, tries: int = TRIES, first_wait: float = FIRST_WAIT
    ) -> None:
        self.url, _, named = address.partition("#")
        self.model = named or os.environ.get("ISOGLOSS_ENDPOINT_MODEL", "")
        self.name = f"{self.url}#{self.model}" if self.model else self.url
        self._timeout, self._tries, self._first_wait = timeout, tries, first_wait
        if not self.model:
            raise ModelError(
                f"{address}: which model?", hint="write http://host/v1/embeddings#name, or set ISOGLOSS_ENDPOINT_MODEL"
            )

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
        # Services refuse empty input; a space is what is left of it after tokenising.
        answer = self._asked({"model": self.model, "input": [text or " " for text in texts]})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            return np.stack([_vector(row["embedding"]) for row in rows])
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise ModelError(
                f"{self.url}: the answer is not in the OpenAI style ({type(error).__name__}: {str(error)[:80]})",
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
                told = error.headers.get("Retry-After", "")
                pause = float(told) if told.replace(".", "", 1).isdigit() else pause
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
        if key := os.environ.get("ISOGLOSS_ENDPOINT_KEY") or os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, json.dumps(question).encode(), headers)
        with urllib.request.urlopen(request, timeout=self._timeout) as response:
            body = response.read()
        try:
            return json.loads(body)
        except ValueError as error:
            raise ModelError(f"{self.url}: the answer is not JSON", hint="is it the address of …/v1/embeddings?") from error


def _vector(told: "list[float] | str") -> FloatArray:
    """Numbers, or the bytes of them in base64."""
    if isinstance(told, str):
        return np.frombuffer(base64.b64decode(told, validate=True), dtype="<f4").astype(np.float32)
    return np.asarray(told, dtype=np.float32)


def _said(error: urllib.error.HTTPError) -> str:
    """What the service itself said, if it said it in a line."""
    try:
        told = json.loads(error.read())["error"]
        return f" ({str(told['message'] if isinstance(told, dict) else told)[:160]})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _advice(code: int) -> str:
    if code in (401, 403):
        return "set ISOGLOSS_ENDPOINT_KEY or OPENAI_API_KEY"
    return "does it have this model?" if code in (400, 404, 422) else "see what the service says"

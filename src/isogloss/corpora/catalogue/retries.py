"""HTTP requests with retries: temporary failures are retried, others are explained.

`isogloss.web` makes the requests with the standard library, which honors the proxies of the environment.
"""

import email.utils
import http.client
import os
import random
import ssl
import time
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from isogloss.amounts import duration
from isogloss.errors import DataError
from isogloss.shapes import parse_json
from isogloss.web import parse_url, send, whole_number

Result = TypeVar("Result")
PASSING = {408, 425, 429, 500, 502, 503, 504}  # temporary statuses
LARGEST_ANSWER = 64 * 2**20  # bytes of JSON
OFFLINE = "check the network, and https_proxy if you are behind one; the same command continues where it stopped"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to retry. Consecutive failures are counted; arriving bytes reset the count."""

    attempts: int = 6
    attempts_to_connect: int = 3  # for a host that was never reached: the network is probably down
    first_wait: float = 1.0  # seconds; doubled after each failure, with jitter
    longest_wait: float = 60.0
    longest_requested: float = 600.0  # if the server asks for a longer wait, raise instead
    timeout: float = 60.0  # seconds without a byte
    wait: Callable[[float], None] = time.sleep


PATIENT = Patience()


class TemporaryFailure(Exception):
    """A temporary failure: a cut connection, a busy server. `brief` is shown beside the progress bar."""

    def __init__(self, what: str, brief: str = "cut", retry_after: float | None = None, reached: bool = True) -> None:
        super().__init__(what)
        self.brief, self.retry_after, self.reached = brief, retry_after, reached


class NotFound(DataError):
    """The server does not have it."""


def retried(
    url: str,
    patience: Patience,
    action: Callable[[], Result],
    on_wait: Callable[[TemporaryFailure, float], None] = lambda *_: None,
    progress: Callable[[], int] = lambda: 0,
) -> Result:
    """The result of `action`, repeated after temporary failures, unless too many in a row bring no `progress` (in bytes)."""
    failures, furthest = 0, progress()
    while True:
        try:
            return action()
        except TemporaryFailure as trouble:
            failures = 1 if progress() > furthest else failures + 1
            furthest = max(furthest, progress())
            if (pause := trouble.retry_after) is not None and pause > patience.longest_requested:
                raise DataError(
                    f"{url}: {trouble}, and asks to come back in {duration(pause)}",
                    hint="run the same command later: it continues where it stopped",
                ) from trouble
            if failures >= (patience.attempts if trouble.reached else patience.attempts_to_connect):
                times = "once" if failures == 1 else f"{failures} times"
                raise DataError(f"{url}: {trouble} (tried {times})", hint=OFFLINE) from trouble
            if pause is None:
                pause = min(patience.longest_wait, patience.first_wait * 2.0 ** (failures - 1)) * random.uniform(0.5, 1.0)
            on_wait(trouble, pause)
            patience.wait(pause)


def open_url(
    url: str, timeout: float, headers: Mapping[str, str] | None = None, token: str = "", expected: int = 0
) -> http.client.HTTPResponse:
    """The response of a server after redirects; the caller closes it. `token` is not sent to redirects.

    A status other than 2xx is an error, except for the `expected` one.
    """
    try:
        return send(url, timeout, headers, token)
    except urllib.error.HTTPError as error:
        if error.code == expected:
            return cast("http.client.HTTPResponse", error)  # it has a status, headers and a body
        error.close()
        raise _refusal(url, error) from error
    except urllib.error.URLError as error:
        raise _unreached(url, error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise TemporaryFailure(_reason(error)) from error


def read_some(response: http.client.HTTPResponse, amount: int) -> bytes:
    """The next bytes of a response; empty at its end. A broken connection is a temporary failure."""
    try:
        return response.read(amount)
    except (OSError, http.client.HTTPException) as error:
        raise TemporaryFailure(_reason(error)) from error


def ask(url: str, patience: Patience, token: str = "") -> Any:  # noqa: ANN401 - whatever the service says
    """The JSON answer of a service."""

    def request() -> bytearray:
        text = bytearray()
        with open_url(url, patience.timeout, {"Accept": "application/json"}, token) as response:
            while piece := read_some(response, 2**16):
                text += piece
                if len(text) > LARGEST_ANSWER:
                    raise DataError(f"{url}: the answer is too long", hint="check the address of the service")
            if len(text) < (whole_number(response.headers.get("Content-Length")) or 0):
                raise TemporaryFailure("the connection was cut")
        return text

    try:
        return parse_json(retried(url, patience, request))
    except ValueError as error:
        raise DataError(
            f"{url}: the answer is not JSON", hint="is it the address of the service, and does the network need a login?"
        ) from error


def mirrored(url: str) -> str:
    """The URL on the mirror $ISOGLOSS_MIRROR/HOST/PATH, if that is set."""
    mirror = os.environ.get("ISOGLOSS_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    said = f"the server answers {error.code} {error.reason or ''}".rstrip()
    if error.code in PASSING:
        return TemporaryFailure(said, f"answer {error.code}", _asked_wait(error.headers.get("Retry-After")))
    if error.code in (http.client.NOT_FOUND, http.client.GONE):
        return NotFound(f"{url}: {said}", hint="it was moved or never existed: isogloss corpora list NAME shows its page")
    if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return DataError(f"{url}: {said}", hint="access is restricted: its page says how to get it")
    return DataError(f"{url}: {said}", hint="try again later; its page may say more")


def _asked_wait(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date."""
    if value is None:
        return None
    if (seconds := whole_number(value)) is not None:
        return float(seconds)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError, IndexError):  # not a date, or out of range
        return None


def _unreached(url: str, reason: str | BaseException) -> Exception:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DataError(
            f"{url}: its certificate cannot be trusted ({reason.verify_message})",
            hint="is there a TLS-inspecting proxy? set SSL_CERT_FILE to its certificate",
        )
    return TemporaryFailure(f"{parse_url(url).hostname} cannot be reached ({_reason(reason)})", "not reached", reached=False)


def _reason(reason: str | BaseException) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection was cut"
    return str(reason) or type(reason).__name__

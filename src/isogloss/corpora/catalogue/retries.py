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
from typing import Any

from isogloss.amounts import duration
from isogloss.errors import DataError
from isogloss.shapes import parse_json
from isogloss.web import parse_url, send, whole_number

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
    longest_asked: float = 600.0  # if the server asks for a longer wait, raise instead
    timeout: float = 60.0  # seconds without a byte
    wait: Callable[[float], None] = time.sleep


class Trouble(Exception):
    """A temporary failure: a cut connection, a busy server.

    `brief` is shown beside the progress bar, `after` is the wait that the server asked for.
    """

    def __init__(self, what: str, brief: str = "cut", after: float | None = None, reached: bool = True) -> None:
        super().__init__(what)
        self.brief = brief
        self.after = after
        self.reached = reached


class NotThere(DataError):
    """The server does not have it."""


class NotChanged(Exception):
    """The file has not changed."""


class NothingLeft(Exception):
    """The server has no bytes beyond the start of a resumed download; `total` is the length of the file."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self.total = total


class Tries:
    """Counts consecutive failures, gives the wait after each, and raises after too many."""

    def __init__(self, url: str, patience: Patience) -> None:
        self.url = url
        self.patience = patience
        self.failures = 0

    def succeeded(self) -> None:
        """Reset the count."""
        self.failures = 0

    def failed(self, trouble: Trouble) -> float:
        """Seconds to wait before the next try."""
        self.failures += 1
        patience = self.patience
        if trouble.after is not None and trouble.after > patience.longest_asked:
            raise DataError(
                f"{self.url}: {trouble}, and asks to come back in {duration(trouble.after)}",
                hint="run the same command later: it continues where it stopped",
            ) from trouble
        if self.failures >= (patience.attempts if trouble.reached else patience.attempts_to_connect):
            times = "once" if self.failures == 1 else f"{self.failures} times"
            raise DataError(f"{self.url}: {trouble} (tried {times})", hint=OFFLINE) from trouble
        if trouble.after is not None:
            return trouble.after
        longest: float = min(patience.longest_wait, patience.first_wait * 2.0 ** (self.failures - 1))
        return longest * random.uniform(0.5, 1.0)


def open_url(url: str, timeout: float, headers: Mapping[str, str] | None = None, token: str = "") -> http.client.HTTPResponse:
    """The response of a server after redirects; the caller closes it. `token` is not sent to redirects."""
    try:
        return send(url, timeout, headers, token)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(url, error, headers or {}) from error
    except urllib.error.URLError as error:
        raise _unreached(url, error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise Trouble(_plainly(error)) from error


def read_some(response: http.client.HTTPResponse, amount: int) -> bytes:
    """The next bytes of a response; empty at its end. A broken connection is a temporary failure."""
    try:
        return response.read(amount)
    except (OSError, http.client.HTTPException) as error:
        raise Trouble(_plainly(error)) from error


def ask(url: str, patience: Patience, token: str = "") -> Any:  # noqa: ANN401 - whatever the service says
    """The JSON answer of a service."""
    tries = Tries(url, patience)
    while True:
        try:
            with open_url(url, patience.timeout, {"Accept": "application/json"}, token) as response:
                return _json(url, response)
        except Trouble as trouble:
            patience.wait(tries.failed(trouble))


def _json(url: str, response: http.client.HTTPResponse) -> Any:  # noqa: ANN401 - whatever the service says
    text = bytearray()
    while piece := read_some(response, 2**16):
        text += piece
        if len(text) > LARGEST_ANSWER:
            raise DataError(f"{url}: the answer is too long", hint="check the address of the service")
    if len(text) < (whole_number(response.headers.get("Content-Length")) or 0):
        raise Trouble("the connection was cut")
    try:
        return parse_json(text)
    except ValueError as error:
        raise DataError(
            f"{url}: the answer is not JSON", hint="is it the address of the service, and does the network need a login?"
        ) from error


def mirrored(url: str) -> str:
    """The URL on the mirror $ISOGLOSS_MIRROR/HOST/PATH, if that is set."""
    mirror = os.environ.get("ISOGLOSS_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


def _refusal(url: str, error: urllib.error.HTTPError, asked: Mapping[str, str]) -> Exception:
    said = f"the server answers {error.code} {error.reason or ''}".rstrip()
    if error.code in PASSING:
        return Trouble(said, f"answer {error.code}", _asked_wait(error.headers.get("Retry-After")))
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in asked:
        return NothingLeft(whole_number((error.headers.get("Content-Range") or "").rpartition("/")[2]))
    if error.code == http.client.NOT_MODIFIED and {"If-None-Match", "If-Modified-Since"} & set(asked):
        return NotChanged(url)
    if error.code in (http.client.NOT_FOUND, http.client.GONE):
        return NotThere(f"{url}: {said}", hint="it was moved or never existed: isogloss corpora list NAME shows its page")
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
    return Trouble(f"{parse_url(url).hostname} cannot be reached ({_plainly(reason)})", "not reached", reached=False)


def _plainly(reason: str | BaseException) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection was cut"
    return str(reason) or type(reason).__name__

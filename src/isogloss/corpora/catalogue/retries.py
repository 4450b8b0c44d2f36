"""Asking a server, politely and patiently: what is worth another try is told apart from what is not.

`isogloss.web` makes the requests, by the standard library (urllib): it honours the proxies of the environment, and nothing
here needs more than GET with ranges.
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

PASSING = {408, 425, 429, 500, 502, 503, 504}  # statuses that another try may change
LARGEST_ANSWER = 64 * 2**20  # of a service's JSON; a corpus is never held in memory
OFFLINE = "check the network, and https_proxy if you are behind one; the same command continues where it stopped"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to insist. Failures are counted in a row: bytes that arrive begin the count anew."""

    attempts: int = 6
    attempts_to_connect: int = 3  # a host that was never reached: the network is probably down, say so soon
    first_wait: float = 1.0  # seconds; doubled after each failure, and shortened by chance so that many do not come at once
    longest_wait: float = 60.0
    longest_asked: float = 600.0  # a server that wants us to wait longer than this is told to the user instead
    timeout: float = 60.0  # without a byte
    wait: Callable[[float], None] = time.sleep


class Trouble(Exception):
    """Something that may pass: a cut connection, a busy server.

    `brief` is one word for it beside a bar, `after` how long the server asked us to wait.
    """

    def __init__(self, what: str, brief: str = "cut", after: float | None = None, reached: bool = True) -> None:
        super().__init__(what)
        self.brief = brief
        self.after = after
        self.reached = reached


class NotThere(DataError):
    """The server knows no such thing."""


class NotChanged(Exception):
    """The file is still the one that was asked about."""


class NothingLeft(Exception):
    """The server has nothing beyond the place a download was to continue from; `total` is how long it says the file is."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self.total = total


class Tries:
    """Counts failures in a row, and says how long to wait after each; when patience ends it raises."""

    def __init__(self, url: str, patience: Patience) -> None:
        self.url = url
        self.patience = patience
        self.failures = 0

    def succeeded(self) -> None:
        """Begin the count anew."""
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
    """The answer of a server, redirects followed; to be closed by the caller.

    `token` goes to the address itself only: a redirect leads to storage that is signed already and wants no second key.
    """
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
    """The next bytes of an answer; empty at its end. A connection that breaks is trouble that may pass."""
    try:
        return response.read(amount)
    except (OSError, http.client.HTTPException) as error:
        raise Trouble(_plainly(error)) from error


def ask(url: str, patience: Patience, token: str = "") -> Any:  # noqa: ANN401 - whatever the service says
    """What a service answers in JSON."""
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
            raise DataError(f"{url}: the answer is too long to be one", hint="check the address of the service")
    if len(text) < (whole_number(response.headers.get("Content-Length")) or 0):
        raise Trouble("the connection was cut")
    try:
        return parse_json(text)
    except ValueError as error:
        raise DataError(
            f"{url}: the answer is not JSON", hint="is it the address of the service, and does the network need a login?"
        ) from error


def mirrored(url: str) -> str:
    """The same file on the mirror of the environment, if there is one: $ISOGLOSS_MIRROR/HOST/PATH."""
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
        return NotThere(f"{url}: {said}", hint="it was moved or never was there: isogloss corpora list says where to look")
    if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return DataError(f"{url}: {said}", hint="it is for certain people only: its page says for whom, and where to log in")
    return DataError(f"{url}: {said}", hint="try again later; its page may say more")


def _asked_wait(told: str | None) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date."""
    if told is None:
        return None
    if (seconds := whole_number(told)) is not None:
        return float(seconds)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError, IndexError):  # of dates that are none, and of those beyond any calendar
        return None


def _unreached(url: str, reason: str | BaseException) -> Exception:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DataError(
            f"{url}: its certificate cannot be trusted ({reason.verify_message})",
            hint="a proxy that opens encrypted traffic? name its certificate in SSL_CERT_FILE",
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

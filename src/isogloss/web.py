"""One way to any web server: which addresses are asked at all, where keys go, and which redirects are followed.

A key goes to the address that it was given for and to no other: it does not follow a redirect. Redirects lead to http and
https only, and never from https to http when a key was sent. What is posted is not sent on to another address at all.
"""

import http.client
import importlib.metadata
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from functools import cache
from typing import IO, Any

from isogloss.errors import DataError, IsoglossError
from isogloss.shown import MASK, masked

_KEPT_AS_THEY_ARE = "%/:?#[]@!$&'()*+,;=~"


class NotAnAddress(DataError):
    """A web address that cannot be asked."""


def parse_url(url: str) -> urllib.parse.SplitResult:
    """A web address taken apart, after every check that the standard library leaves to whoever connects.

    Letters beyond ASCII are percent-encoded, in a host by its own rules. A password in an address is refused: no request
    would carry it, and every log would.
    """
    shown = masked(url)[:200]
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
        asked = host if ":" in host else host.encode("idna").decode()
    except ValueError as error:
        why = "" if MASK in shown else f" ({error})"  # which may quote a part of a password
        raise NotAnAddress(f"{shown}: not a web address{why}", hint="for example https://host/path") from error
    if parts.scheme not in ("http", "https") or not asked:
        raise NotAnAddress(f"{shown}: not a web address", hint="addresses begin with https://")
    if "@" in parts.netloc:
        raise NotAnAddress(
            f"{shown}: a user or password in an address is not used", hint="keys are read from environment variables"
        )
    netloc = (f"[{asked}]" if ":" in asked else asked) + (f":{port}" if port is not None else "")
    path, query = (urllib.parse.quote(one, safe=_KEPT_AS_THEY_ARE) for one in (parts.path, parts.query))
    return urllib.parse.SplitResult(parts.scheme, netloc, path, query, "")


def checked_key(key: str, variable: str) -> str:
    """A key that a header can carry; `variable` says where it comes from. The key itself is in no message."""
    key = key.strip(" ")
    if key and not (key.isascii() and key.isprintable()):
        raise IsoglossError(
            f"the key in {variable} has a line break or another character that no key has",
            hint=f"set {variable} again, without quotes or line breaks",
        )
    return key


def send(
    url: str, timeout: float, headers: Mapping[str, str] | None = None, key: str = "", data: bytes | None = None
) -> http.client.HTTPResponse:
    """The answer to GET, or to POST where there is `data`; to be closed by the caller.

    Raises what urllib raises where there is no answer or an answer of refusal, and `NotAnAddress`.
    """
    request = urllib.request.Request(parse_url(url).geturl(), data, {"User-Agent": user_agent(), **(headers or {})})
    if key:
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    try:
        response: http.client.HTTPResponse = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except ValueError as error:  # urllib takes the address of a redirect apart before anybody can look at it
        raise NotAnAddress(f"{url}: redirects to something that is not a web address", hint="check the address") from error
    return response


class _Redirects(urllib.request.HTTPRedirectHandler):
    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage
    ) -> Any | None:  # noqa: ANN401 - as urllib has it
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except (ValueError, NotAnAddress):
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        asked, parts = req.full_url, parse_url(newurl)
        if req.data is not None:
            raise NotAnAddress(f"{asked}: redirects to {parts.geturl()}", hint="use that address, if it can be trusted")
        if req.has_header("Authorization") and req.type == "https" and parts.scheme == "http":
            raise NotAnAddress(f"{asked}: redirects to {parts.geturl()}, which is not encrypted", hint="check the address")
        followed = super().redirect_request(req, fp, code, msg, headers, parts.geturl())
        fp.close()  # what comes with a redirect is not read, however long it says it is
        return followed


def whole_number(text: object) -> int | None:
    """The number in a header or an answer; None where it is none (`²` is a digit for Python, but no number)."""
    if isinstance(text, bool) or not isinstance(text, int | str):
        return None
    digits = text.strip() if isinstance(text, str) else str(text) if abs(text) < 10**18 else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


@cache
def user_agent() -> str:
    """Who is asking: servers like to know, and some refuse a library's default name."""
    try:
        return f"isogloss/{importlib.metadata.version('isogloss')}"
    except importlib.metadata.PackageNotFoundError:  # a source tree that was never installed
        return "isogloss"

"""HTTP requests: which URLs are allowed, where keys are sent, and which redirects are followed.

A key is sent only to the URL it was given for, never to a redirect's. Redirects lead to http and https only, and never from
https to http after a key was sent. A POST is not redirected at all.
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

_SAFE = "%/:?#[]@!$&'()*+,;=~"


class NotAnAddress(DataError):
    """A URL that cannot be requested."""


def parse_url(url: str) -> urllib.parse.SplitResult:
    """Split a URL, with the checks that the standard library leaves out.

    Non-ASCII letters are percent-encoded (IDNA in the host). A password in a URL is refused: no request would use it, but logs
    would contain it.
    """
    shown = masked(url)[:200]
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
        asked = host if ":" in host else host.encode("idna").decode()
    except ValueError as error:
        why = "" if MASK in shown else f" ({error})"  # the message may quote a part of the password
        raise NotAnAddress(f"{shown}: not a web address{why}", hint="for example https://host/path") from error
    if parts.scheme not in ("http", "https") or not asked:
        raise NotAnAddress(f"{shown}: not a web address", hint="addresses begin with https://")
    if "@" in parts.netloc:
        raise NotAnAddress(
            f"{shown}: a user or password in a web address is not used", hint="keys are read from environment variables"
        )
    netloc = (f"[{asked}]" if ":" in asked else asked) + (f":{port}" if port is not None else "")
    path, query = (urllib.parse.quote(part, safe=_SAFE) for part in (parts.path, parts.query))
    return urllib.parse.SplitResult(parts.scheme, netloc, path, query, "")


def checked_key(key: str, variable: str) -> str:
    """A key that fits in a header; `variable` names its environment variable. No message contains the key."""
    key = key.strip(" ")
    if key and not (key.isascii() and key.isprintable()):
        raise IsoglossError(
            f"the key in {variable} has a line break or another invalid character",
            hint=f"set {variable} again, without quotes or line breaks",
        )
    return key


def send(
    url: str,
    timeout: float,
    headers: Mapping[str, str] | None = None,
    key: str = "",
    data: bytes | None = None,
    method: str = "",
    scheme: str = "Bearer",
) -> http.client.HTTPResponse:
    """The response to GET, to POST if there is `data`, or to another `method`; the caller closes it.

    The key is sent with its `scheme`, such as Bearer or Basic.

    Raises urllib's exceptions if there is no response or an error status, and `NotAnAddress`.
    """
    address, all_headers = parse_url(url).geturl(), {"User-Agent": user_agent(), **(headers or {})}
    request = urllib.request.Request(address, data, all_headers, method=method or None)
    if key:
        request.add_unredirected_header("Authorization", f"{scheme} {key}")
    try:
        response: http.client.HTTPResponse = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except ValueError as error:  # urllib parses the URL of a redirect before we can check it
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
        fp.close()  # the body of a redirect is not read
        return followed


def whole_number(text: object) -> int | None:
    """The whole number in a header or a response; None if it is not one (Python takes `²` for a digit)."""
    if isinstance(text, bool) or not isinstance(text, int | str):
        return None
    digits = text.strip() if isinstance(text, str) else str(text) if abs(text) < 10**18 else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


@cache
def user_agent() -> str:
    """Our User-Agent: some servers refuse a library's default one."""
    try:
        return f"isogloss/{importlib.metadata.version('isogloss')}"
    except importlib.metadata.PackageNotFoundError:  # a source tree that is not installed
        return "isogloss"

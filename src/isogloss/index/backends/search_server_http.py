"""Requests to OpenSearch and Elasticsearch: JSON over HTTP, with the key or password of the environment.

OpenSearch       OPENSEARCH_USER and OPENSEARCH_PASSWORD, or https://user:password@host:9200
Elasticsearch    ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD, or as above
"""

import base64
import http.client
import json
import os
import urllib.error
import urllib.parse
from collections.abc import Sequence
from typing import Any

from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.shapes import parse_json
from isogloss.web import checked_key, parse_url, send

MAX_RESPONSE = 256 * 2**20  # bytes
TIMEOUT_SECONDS = 60.0
JSON, LINES = "application/json", "application/x-ndjson"


class SearchServer:
    """One index of a server."""

    def __init__(self, address: Address) -> None:
        self.shown, self._kind = address.shown, address.kind
        url, key, scheme = _without_login(address.place)
        self._url, self._key, self._scheme = url.rstrip("/"), key, scheme
        if not key:
            self._key, self._scheme = _from_environment(self._kind)
        parse_url(self._url)
        self._index = urllib.parse.quote(address.name, safe="")

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever JSON can hold
        """The answer to a GET of a path under the index."""
        return self._request("GET", path)

    def post(self, path: str, content: dict[str, Any]) -> Any:  # noqa: ANN401
        """The answer to a POST."""
        return self._request("POST", path, json.dumps(content).encode())

    def put(self, path: str, content: dict[str, Any]) -> Any:  # noqa: ANN401
        """The answer to a PUT."""
        return self._request("PUT", path, json.dumps(content).encode())

    def delete(self) -> None:
        """Delete the index."""
        self._request("DELETE", "")

    def exists(self) -> bool:
        """Whether the index exists."""
        try:
            self._request("GET", "/_mapping")
        except MissingIndex:
            return False
        return True

    def bulk(self, lines: Sequence[dict[str, Any]]) -> None:
        """Send actions and documents; raises for the first that fails."""
        data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        answer = self._request("POST", "/_bulk", data, LINES)
        if answer.get("errors"):
            failed = next(one for item in answer["items"] for one in item.values() if "error" in one)
            raise DataError(f"{self.shown}: {_reason(failed['error'])}", hint=f"the document is {failed.get('_id')!r}")

    def _request(self, method: str, path: str, data: bytes | None = None, kind: str = JSON) -> Any:  # noqa: ANN401
        url = f"{self._url}/{self._index}{path}"
        headers = {"Content-Type": kind, "Accept": JSON} if data is not None else {"Accept": JSON}
        try:
            with send(url, TIMEOUT_SECONDS, headers, self._key, data, method, self._scheme) as response:
                body = response.read(MAX_RESPONSE + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read(2**16)) from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", "") or error)
            raise DataError(f"{self.shown}: no answer ({reason})", hint="check the address; is the server up?") from None
        try:
            if len(body) > MAX_RESPONSE:
                raise ValueError("it is too large")
            return parse_json(body)
        except ValueError as error:
            message = f"{self.shown}: the answer is not the JSON that {self._kind} sends ({str(error)[:80]})"
            raise DataError(message, hint="check the address") from error

    def _refusal(self, status: int, body: bytes) -> DataError:
        if status in (401, 403):
            names = " and ".join(variables(self._kind)[-2:])
            return DataError(f"{self.shown}: the server denies access ({status})", hint=f"set {names}")
        try:
            reason = _reason(parse_json(body)["error"])
        except (ValueError, KeyError, TypeError):
            reason = f"status {status}"
        if status == 404:
            return MissingIndex(f"{self.shown}: there is no such index", hint=f"list them: GET {self._url}/_cat/indices")
        return DataError(f"{self.shown}: the server refuses the request: {reason}", hint="see the server's log")


class MissingIndex(DataError):
    """The server does not have the index."""


def variables(kind: str) -> tuple[str, ...]:
    """The environment variables for a kind of server: of a key, a user and a password."""
    name = kind.upper()
    return (*([f"{name}_API_KEY"] if kind == "elasticsearch" else []), f"{name}_USER", f"{name}_PASSWORD")


def _from_environment(kind: str) -> tuple[str, str]:
    """A key and its scheme; empty if the environment has none."""
    *keys, user, password = variables(kind)
    for variable in keys:
        if key := checked_key(os.environ.get(variable, ""), variable):
            return key, "ApiKey"
    given = os.environ.get(user, ""), os.environ.get(password, "")
    return (_basic(*given), "Basic") if all(given) else ("", "Basic")


def _without_login(url: str) -> tuple[str, str, str]:
    """A URL without user and password, and these as a key with its scheme."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    if not at:
        return url, "", ""
    user, _, password = login.partition(":")
    return f"{scheme}{separator}{host}{slash}{path}", _basic(*map(urllib.parse.unquote, (user, password))), "Basic"


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _reason(error: Any) -> str:  # noqa: ANN401 - as the server sends it
    """The innermost reason that a server gives."""
    if not isinstance(error, dict):
        return str(error)[:200]
    causes = error.get("root_cause") or [error]
    return str(causes[0].get("reason") or causes[0].get("type") or "no reason given")[:200]

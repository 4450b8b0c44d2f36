"""A stand-in for the Hugging Face Hub on this machine: it takes uploads, and knows no model to download."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import huggingface_hub
import pytest

COMMIT = "0" * 40


class AlreadyThere(Exception):
    """A repository is to be made again."""


class Hub:
    """The files of each repository, what was requested, and how often the library paused to try again."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []
        self.pauses: list[float] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.thread = Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """The answer to a POST of the hub's API: create a repository, ask how to upload, commit."""
        if path == "/api/repos/create":
            sent = json.loads(body)
            name = f"{sent['organization']}/{sent['name']}" if sent.get("organization") else f"me/{sent['name']}"
            if name in self.files:
                raise AlreadyThere(name)
            self.files[name] = {}
            return {"url": f"{self.url}/{name}", "name": name, "id": name}
        if "/preupload/" in path:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for one in json.loads(body)["files"]
            ]
            return {"files": files}
        if "/commit/" in path:
            name = path.removeprefix("/api/models/").split("/commit/")[0]
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return {"commitUrl": f"{self.url}/{name}/commit/{COMMIT}", "commitOid": COMMIT, "hookOutput": ""}
        return {"errors": [], "warnings": []}


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.requests.append(self.path)
            self._send(200 if self.path == "/" else 404, b"")

        do_HEAD = do_GET

        def do_POST(self) -> None:
            hub.requests.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                self._send(200, json.dumps(hub.post(self.path, body)).encode())
            except AlreadyThere as error:
                url = f"{hub.url}/{error}"
                self._send(409, json.dumps({"error": "You already created this model repo", "url": url}).encode())

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            pass

    return Answer


@contextmanager
def running_hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
    """A hub that huggingface_hub talks to; its pauses between attempts are counted, not waited for."""
    hub, constants = Hub(), huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", hub.pauses.append)
    try:
        yield hub
    finally:
        hub.close()
        huggingface_hub.close_session()

"""A server on this machine that speaks as OPUS, the hub and plain file servers do, and fails on request.

OPUS: one address with parameters, as its source code has it (pairs sorted, `latest` as the string "True", a question about
one language answered with the pairs that have it on either side). The hub: the data set's API, and files that are found
through a redirect to a store that refuses keys. Files: ranges with If-Range, ETag and Last-Modified; a condition that still
holds is answered with 304.
"""

import hashlib
import json
import threading
import urllib.parse
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Served:
    """A file as the server has it."""

    content: bytes
    etag: str = ""
    ranges: bool = True
    last_modified: str = ""
    content_type: str = "application/octet-stream"
    says_length: bool = True
    conditions: bool = True


@dataclass
class Asked:
    """One request that came in."""

    path: str
    headers: dict[str, str]


@dataclass
class Fault:
    """What one request meets instead of the file: a status, or a connection that ends after some bytes."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int = -1
    before: Callable[[], object] = lambda: None


class Service:
    """The server. `files` by path, `faults` by path (one is used up by each request), `asked` in order."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.asked: list[Asked] = []
        self.opus: list[dict[str, Any]] = []
        self.datasets: dict[str, dict[str, bytes]] = {}
        self.answers: dict[str, object] = {}  # what is said at a path instead, as JSON
        self.commit = COMMIT
        self.server = Server(self)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        """Stop, and leave no thread or socket behind."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def serve(self, path: str, content: bytes, **more: Any) -> str:  # noqa: ANN401 - fields of Served
        """Offer a file; its address."""
        self.files[path] = Served(content, **{"etag": f'"{hashlib.md5(content).hexdigest()}"', **more})
        return self.url + path

    def offer_on_opus(self, corpus: str, version: str, pair: str, content: bytes = b"", **more: Any) -> None:  # noqa: ANN401
        """Offer a file as OPUS does: listed by its API, with its address in the answer."""
        source, target = pair.split("-")
        kind = more.pop("kind", "moses")
        ending = {"moses": "txt.zip", "tmx": "tmx.gz", "tsv": "tsv.gz"}[kind]
        url = self.serve(f"/OPUS-{corpus}/{version}/{kind}/{pair}.{ending}", content)
        row = {
            "alignment_pairs": more.pop("pairs", 2),
            "corpus": corpus,
            "documents": "",
            "id": len(self.opus) + 1,
            "latest": str(more.pop("latest", True)),
            "preprocessing": kind,
            "size": max(1, len(content) // 1024),
            "source": source,
            "source_tokens": 10,
            "target": target,
            "target_tokens": 10,
            "url": url,
            "version": version,
        }
        self.opus.append(row | more)

    def requests(self, path: str) -> list[Asked]:
        """Those for one path."""
        return [one for one in self.asked if urllib.parse.urlsplit(one.path).path == path]


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class OneRequest(BaseHTTPRequestHandler):
    """What the server does with a request."""

    @property
    def known(self) -> Service:
        """What the server has."""
        assert isinstance(self.server, Server)
        return self.server.service

    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        self.known.asked.append(Asked(self.path, {key.lower(): value for key, value in self.headers.items()}))
        fault = self.known.faults[address.path].pop(0) if self.known.faults[address.path] else Fault()
        fault.before()
        if fault.status:
            self.answer(fault.status, b"no", fault.headers)
        elif address.path in self.known.answers:
            self.say(self.known.answers[address.path])
        elif address.path == "/opusapi/":
            self.say(_opus_answer(self.known.opus, dict(urllib.parse.parse_qsl(address.query))))
        elif address.path.startswith("/api/datasets/"):
            self.dataset(address.path.removeprefix("/api/datasets/"), address.query)
        elif address.path.startswith("/datasets/"):
            self.redirect(address.path.removeprefix("/datasets/"))
        elif address.path in self.known.files:
            self.file(self.known.files[address.path], fault.cut_after)
        else:
            self.answer(404, b"not here")

    def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def say(self, value: object) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def file(self, file: Served, cut_after: int) -> None:
        held = (self.headers.get("If-None-Match"), self.headers.get("If-Modified-Since"))
        if file.conditions and any(one and one in (file.etag, file.last_modified) for one in held):
            self.send_response(304)
            return self.end_headers()
        start, status = 0, 200
        asked = self.headers.get("Range", "")
        unchanged = self.headers.get("If-Range", file.etag) in (file.etag, file.last_modified)
        if asked and file.ranges and unchanged:
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            if start >= len(file.content):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(file.content)}"})
        body = file.content[start:]
        self.send_response(status)
        headers = {"Content-Type": file.content_type, "ETag": file.etag, "Last-Modified": file.last_modified}
        if file.says_length:
            headers["Content-Length"] = str(len(body))
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{len(file.content) - 1}/{len(file.content)}"
        for key, value in headers.items():
            if value:
                self.send_header(key, value)
        self.end_headers()
        with suppress(ConnectionError):  # who asked may have seen enough
            self.wfile.write(body if cut_after < 0 else body[:cut_after])
        return None

    def dataset(self, path: str, query: str) -> None:
        repo, _, revision = path.partition("/revision/")
        if repo not in self.known.datasets or revision not in ("main", COMMIT) or "blobs=true" not in query:
            return self.answer(404, b'{"error": "Repository not found"}')
        siblings = [
            {
                "rfilename": name,
                "size": len(content),
                "blobId": "0" * 40,
                "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 131},
            }
            for name, content in self.known.datasets[repo].items()
        ]
        return self.say({"id": repo, "sha": self.known.commit, "siblings": [{"rfilename": "README.md", "size": 3}, *siblings]})

    def redirect(self, path: str) -> None:
        """`OWNER/NAME/resolve/COMMIT/FILE` is in a store elsewhere, whose address is signed: a key there is refused."""
        repo, _, rest = path.partition("/resolve/")
        name = urllib.parse.unquote(rest.partition("/")[2])
        store = f"/store/{repo}/{name}"
        self.known.serve(store, self.known.datasets[repo][name])
        self.answer(302, b"", {"Location": f"{self.known.url}{store}?signature=x", "X-Repo-Commit": COMMIT})


class Server(ThreadingHTTPServer):
    """A server that knows what it serves."""

    daemon_threads = False

    def __init__(self, service: Service) -> None:
        super().__init__(("127.0.0.1", 0), OneRequest)
        self.service = service


def _opus_answer(rows: list[dict[str, Any]], asked: dict[str, str]) -> dict[str, Any]:
    if asked.get("version") == "latest":
        asked = {key: value for key, value in asked.items() if key != "version"} | {"latest": "True"}
    source, target = asked.pop("source", ""), asked.pop("target", "")
    rows = [row for row in rows if all(row[key] == value for key, value in asked.items())]
    if source and target:
        wanted = sorted((source, target))
        rows = [row for row in rows if [row["source"], row["target"]] == wanted]
    elif source:
        rows = [row for row in rows if source in (row["source"], row["target"])]
    return {"corpora": rows}

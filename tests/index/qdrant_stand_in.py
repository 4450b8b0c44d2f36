"""A stand-in for a Qdrant server: its REST interface over the embedded mode of qdrant-client, which does the work.

It shows that isogloss sends what qdrant-client accepts, with the key; what a real server would do differently is not tested.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from qdrant_client import QdrantClient, models


class QdrantStandIn:
    """The collections, and the key that requests need."""

    def __init__(self, key: str) -> None:
        self.key, self.client, self.keeps_metadata = key, QdrantClient(":memory:"), True
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - models of the client
        """The result of a request."""
        name, _, rest = path.removeprefix("/collections").strip("/").partition("/")
        if not name:
            return self.client.get_collections()
        if rest == "exists":
            return {"exists": self.client.collection_exists(name)}
        points: dict[tuple[str, str], Callable[[str, dict[str, Any]], Any]] = {
            ("GET", ""): lambda name, _: self.client.get_collection(name),
            ("PUT", ""): self._create,
            ("PATCH", ""): lambda name, body: self.client.update_collection(name, metadata=body["metadata"]),
            ("DELETE", ""): lambda name, _: self.client.delete_collection(name),
            ("PUT", "points"): self._upsert,
            ("POST", "points"): lambda name, body: self.client.retrieve(name, **body),
            ("POST", "points/count"): lambda name, _: self.client.count(name),
            ("POST", "points/query"): self._query,
            ("POST", "points/scroll"): self._scroll,
        }
        return points[method, rest](name, body)

    def _create(self, name: str, body: dict[str, Any]) -> bool:
        sent = models.CreateCollection(**body)
        metadata = sent.metadata if self.keeps_metadata else None
        return bool(self.client.create_collection(name, vectors_config=sent.vectors, metadata=metadata))

    def _upsert(self, name: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
        return self.client.upsert(name, models.Batch(**body["batch"]))

    def _query(self, name: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
        sent = models.QueryRequest(**body)
        return self.client.query_points(
            name, query=sent.query.nearest, using=sent.using, limit=sent.limit, with_payload=sent.with_payload
        )

    def _scroll(self, name: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
        sent = models.ScrollRequest(**body)
        found, following = self.client.scroll(
            name, scroll_filter=sent.filter, limit=sent.limit, with_payload=sent.with_payload, with_vectors=sent.with_vector
        )
        return models.ScrollResult(points=found, next_page_offset=following)


def _handler(server: QdrantStandIn) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("api-key") != server.key:
                self._send(401, {"status": {"error": "Must provide an API key"}})
                return
            result = server.answer(self.command, self.path.partition("?")[0], json.loads(sent or b"{}"))
            self._send(200, {"result": _plain(result), "status": "ok", "time": 0.0})

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def _send(self, status: int, content: object) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Answer


def _plain(result: Any) -> Any:  # noqa: ANN401
    if isinstance(result, list):
        return [_plain(one) for one in result]
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result


@contextmanager
def qdrant_stand_in(key: str) -> Iterator[QdrantStandIn]:
    """A stand-in that listens while the block runs."""
    one = QdrantStandIn(key)
    thread = Thread(target=one.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        thread.join()
        one.server.server_close()
        one.client.close()

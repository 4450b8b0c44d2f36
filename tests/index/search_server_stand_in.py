"""A stand-in for OpenSearch and Elasticsearch: the few requests that isogloss sends, answered as their manuals say.

It is not either of them: what a real server would do beyond the manuals is not tested.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np

from index.brute_force import score

METRICS = {"cosinesimil": "cosine", "innerproduct": "dot", "l2": "l2"}
METRICS |= {"cosine": "cosine", "max_inner_product": "dot", "dot_product": "dot", "l2_norm": "l2"}


class StandIn:
    """Indexes with their mappings and documents, and the headers of the last request."""

    def __init__(self, password: str = "") -> None:
        self.indexes: dict[str, dict[str, Any]] = {}
        self.password, self.headers, self.requests = password, dict[str, str](), list[str]()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.address = f"127.0.0.1:{self.server.server_port}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Status and content of an answer."""
        name, _, rest = path.strip("/").partition("/")
        self.requests.append(f"{method} {path}")
        if method == "PUT" and not rest:
            mapping = json.loads(body)["mappings"]
            self.indexes[name] = {"mappings": mapping, "documents": {}}
            return 200, {"acknowledged": True}
        if name not in self.indexes:
            return 404, {"error": {"type": "index_not_found_exception", "reason": f"no such index [{name}]"}, "status": 404}
        return 200, self._of_index(method, name, rest, body)

    def _of_index(self, method: str, name: str, rest: str, body: bytes) -> Any:  # noqa: ANN401
        index = self.indexes[name]
        if method == "DELETE":
            del self.indexes[name]
        elif rest == "_mapping" and method == "PUT":
            index["mappings"] |= json.loads(body)
        elif rest == "_mapping":
            return {name: {"mappings": index["mappings"]}}
        elif rest == "_count":
            return {"count": len(index["documents"])}
        elif rest == "_bulk":
            return _bulk(index, body)
        elif rest == "_search":
            return {"hits": {"hits": _search(index, json.loads(body))}}
        return {"acknowledged": True}


def _bulk(index: dict[str, Any], body: bytes) -> dict[str, Any]:
    lines, items = [json.loads(line) for line in body.splitlines()], []
    for action, document in zip(lines[::2], lines[1::2], strict=True):
        name = action["index"]["_id"]
        if "refused" in document["text"]:
            items.append({"index": {"_id": name, "error": {"type": "mapper_parsing_exception", "reason": "cannot parse"}}})
            continue
        index["documents"][name] = document
        items.append({"index": {"_id": name, "status": 201}})
    return {"errors": any("error" in item["index"] for item in items), "items": items}


def _search(index: dict[str, Any], query: dict[str, Any]) -> list[dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = index["documents"]
    properties = index["mappings"]["properties"]
    found = dict.fromkeys(documents, 1.0)
    if "knn" in query:  # Elasticsearch
        knn = query["knn"]
        assert knn["k"] <= knn["num_candidates"] <= 10_000
        found = _scored(documents, properties, knn["field"], knn["query_vector"], knn["k"])
    elif "knn" in query["query"]:  # OpenSearch
        ((field, knn),) = query["query"]["knn"].items()
        found = _scored(documents, properties, field, knn["vector"], knn["k"])
    elif "ids" in query["query"]:
        found = {name: 1.0 for name in query["query"]["ids"]["values"] if name in documents}
    hits = []
    for name, value in list(found.items())[: query["size"]]:
        hit: dict[str, Any] = {"_id": name, "_score": value}
        if query["_source"]:
            hit["_source"] = {key: documents[name][key] for key in query["_source"] if key in documents[name]}
        if "fields" in query:
            hit["fields"] = {key: documents[name][key] for key in query["fields"]}
        hits.append(hit)
    return hits


def _scored(
    documents: dict[str, dict[str, Any]], properties: dict[str, Any], field: str, vector: list[float], k: int
) -> dict[str, float]:
    """The k best documents with the scores that the manuals give for a similarity."""
    own = properties[field]
    method = own.get("method", {})
    similarity = own.get("similarity") or method.get("space_type") or own.get("space_type")
    query, metric = np.array(vector), METRICS[similarity]
    exact = {name: score(query, np.array(one[field]), metric) for name, one in documents.items()}
    values = {name: _as_positive(value, similarity, method.get("engine", "")) for name, value in exact.items()}
    return dict(sorted(values.items(), key=lambda one: -one[1])[:k])


def _as_positive(value: float, similarity: str, engine: str) -> float:
    if similarity == "cosinesimil" and engine == "nmslib":
        return 1 / (1 + (1 - value))
    if similarity in ("cosine", "cosinesimil", "dot_product"):
        return (1 + value) / 2
    if similarity in ("innerproduct", "max_inner_product"):
        return value + 1 if value >= 0 else 1 / (1 - value)
    return 1 / (1 + value * value)


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.headers = dict(self.headers)
            login = base64.b64encode(f"me:{server.password}".encode()).decode()
            if server.password and self.headers.get("Authorization") not in (f"Basic {login}", f"ApiKey {server.password}"):
                status, content = 401, {"error": "unauthorized"}
            else:
                status, content = server.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    return Answer


@contextmanager
def stand_in(password: str = "") -> Iterator[StandIn]:
    """A stand-in that listens while the block runs."""
    one = StandIn(password)
    thread = Thread(target=one.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        thread.join()
        one.server.server_close()

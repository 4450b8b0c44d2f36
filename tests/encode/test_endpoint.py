"""A service in the OpenAI style, played by a server in this process: batches, retries, keys, and bad answers."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from isogloss.encode.endpoint import Endpoint
from isogloss.encode.opening import open_encoder
from isogloss.errors import ModelError


class Service(ThreadingHTTPServer):
    """Answers with the length of each text; what goes wrong first is in `troubles`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.troubles: list[tuple[int, dict[str, str], bytes]] = []
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.packed = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/embeddings"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(question)
        self.server.keys.append(self.headers.get("Authorization"))
        if self.server.troubles:
            return self.answer(*self.server.troubles.pop(0))
        rows = []
        for index, text in enumerate(question["input"]):
            vector: Any = [float(len(text)), 1.0]
            if self.server.packed:
                vector = base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()
            rows.append({"object": "embedding", "index": index, "embedding": vector})
        return self.answer(200, {}, json.dumps({"data": rows[::-1], "model": question["model"]}).encode())

    def answer(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("ISOGLOSS_ENDPOINT_MODEL", "ISOGLOSS_ENDPOINT_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = Service()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("packed", [False, True])
def test_batches_in_any_order_and_form(service: Service, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    service.packed = packed
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    texts = ["x" * n for n in range(150)]
    encoder = open_encoder(f"{service.address}#small")
    assert encoder.encode([*texts, "x"])[:, 0].tolist() == [1.0, *range(1, 150), 1.0], "an empty text is asked as a space"
    assert [len(question["input"]) for question in service.seen] == [64, 64, 22]
    assert all(question["model"] == "small" for question in service.seen) and set(service.keys) == {"Bearer secret"}
    assert encoder.dimension == 2 and encoder.name == f"{service.address}#small"
    assert encoder.fingerprint != open_encoder(f"{service.address}#large").fingerprint


def test_a_busy_service_is_asked_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOGLOSS_ENDPOINT_MODEL", "m")
    monkeypatch.setenv("ISOGLOSS_ENDPOINT_KEY", "own")
    service.troubles = [(503, {}, b""), (429, {"Retry-After": "0.01"}, b""), (500, {}, b"oops")]
    assert Endpoint(service.address, first_wait=0.01).encode(["abc"])[0, 0] == 3
    assert len(service.seen) == 4 and service.keys[0] == "Bearer own"
    service.troubles = [(503, {}, b"")] * 9
    with pytest.raises(ModelError, match=r"no answer after 3 tries \(503"):
        Endpoint(service.address, tries=3, first_wait=0.01).encode(["abc"])


def test_what_will_not_get_better_is_said_at_once(service: Service) -> None:
    service.troubles = [(401, {}, json.dumps({"error": {"message": "no such key"}}).encode())]
    with pytest.raises(ModelError, match=r"401 Unauthorized \(no such key\)") as caught:
        Endpoint(f"{service.address}#m").encode(["abc"])
    assert "OPENAI_API_KEY" in caught.value.hint and len(service.seen) == 1
    for body, message in ((b"{}", "not in the OpenAI style"), (b"hello", "not JSON"), (b'{"data": []}', "OpenAI style")):
        service.troubles = [(200, {}, body)]
        with pytest.raises(ModelError, match=message):
            Endpoint(f"{service.address}#m").encode(["abc"])
    with pytest.raises(ModelError, match="which model"):
        Endpoint(service.address)


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="no answer after 2 tries") as caught:
        Endpoint("http://127.0.0.1:9/v1/embeddings#m", tries=2, first_wait=0.0).encode(["a"])
    assert caught.value.hint == "is the service up?"

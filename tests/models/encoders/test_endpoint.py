"""A service in the OpenAI style, played by a server in this process: batches, retries, keys, and bad answers."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from isogloss.errors import IsoglossError, ModelError
from isogloss.models.encoders.endpoint import Endpoint
from isogloss.models.encoders.open import open_encoder


class Service(ThreadingHTTPServer):
    """Answers with the length of each text; what goes wrong first is in `troubles`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.troubles: list[tuple[int, dict[str, str], bytes]] = []
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
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
        self.server.paths.append(self.path)
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
    revised = open_encoder(f"{service.address}#small;revision=2")
    assert revised.encode(["abc"])[0, 0] == 3 and service.seen[-1]["model"] == "small", "the revision is not sent"
    assert len({encoder.fingerprint, revised.fingerprint, open_encoder(f"{service.address}#small;revision=3").fingerprint}) == 3


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
    for body, message in ((b"{}", "does not follow the OpenAI API"), (b"hello", "not JSON"), (b'{"data": []}', "OpenAI API")):
        service.troubles = [(200, {}, body)]
        with pytest.raises(ModelError, match=message):
            Endpoint(f"{service.address}#m").encode(["abc"])
    with pytest.raises(ModelError, match="no model is named"):
        Endpoint(service.address)


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="no answer after 2 tries") as caught:
        Endpoint("http://127.0.0.1:9/v1/embeddings#m", tries=2, first_wait=0.0).encode(["a"])
    assert caught.value.hint == "is the service up?"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_neither_key_nor_text_follows_a_redirect(service: Service, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    other = Service()
    thread = threading.Thread(target=other.serve_forever, args=(0.01,))
    thread.start()
    try:
        for status in (301, 302, 303, 307, 308):
            service.troubles = [(status, {"Location": other.address.replace("127.0.0.1", name)}, b"")]
            with pytest.raises(IsoglossError, match=rf"redirects to http://{name}:\d+/v1/embeddings"):
                Endpoint(f"{service.address}#m").encode(["abc"])
    finally:
        other.shutdown()
        thread.join()
        other.server_close()
    assert not other.seen and not other.keys and service.keys == ["Bearer SECRET"] * 5


@pytest.mark.parametrize("key", ["SECRET\n", "SEC\rRET", "SÉCRET"])
def test_a_key_with_a_line_break_is_refused_unseen(service: Service, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("ISOGLOSS_ENDPOINT_KEY", key)
    with pytest.raises(IsoglossError, match="the key in ISOGLOSS_ENDPOINT_KEY has a line break") as caught:
        Endpoint(f"{service.address}#m").encode(["abc"])
    assert "RET" not in f"{caught.value.message} {caught.value.hint}" and not service.seen


def test_keys_in_addresses_are_sent_and_not_shown(service: Service) -> None:
    encoder = Endpoint(f"{service.address}?api_key=SECRET#m")
    assert encoder.encode(["abc"])[0, 0] == 3 and service.paths == ["/v1/embeddings?api_key=SECRET"]
    assert encoder.name == f"{service.address}?api_key=***#m" and "SECRET" not in f"{encoder.url} {encoder.fingerprint}"
    assert encoder.fingerprint == Endpoint(f"{service.address}?api_key=OTHER#m").fingerprint, "a new key is the same model"
    service.troubles = [(404, {}, b"")]
    with pytest.raises(ModelError, match=r"api_key=\*\*\*: 404") as caught:
        encoder.encode(["abc"])
    assert "SECRET" not in str(caught.value)
    with pytest.raises(ModelError, match="was masked"):
        Endpoint(encoder.name)


@pytest.mark.parametrize(
    "address", ["http://[::1/v1#m", "http://u:SECRET@h/v1#m", "http://h:99999/#m", "http://a..b/#m", "http:///#m"]
)
def test_addresses_that_cannot_be_asked(address: str) -> None:
    with pytest.raises(IsoglossError, match="address") as caught:
        open_encoder(address)
    assert "SECRET" not in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"data": [{"index": "0", "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": {"a": 1}}]}',
        b'{"data": [{"index": 0, "embedding": [{}]}]}',
        b'{"data": [{"index": 0, "embedding": "\xc3\xa9"}]}',
        b'{"data": [{"index": 0, "embedding": [' + b"9" * 400 + b"]}]}",
        b'{"data": [{"index": 0, "embedding": [1e999]}]}',
        b'{"data": {"index": 0}}',
        b"[1]",
        b"3",
    ],
)
def test_whatever_a_service_says_is_one_sentence(service: Service, body: bytes) -> None:
    service.troubles = [(200, {}, body)]
    with pytest.raises(ModelError):
        Endpoint(f"{service.address}#m").encode(["abc"])
    service.troubles = [(429, {"Retry-After": told}, b"") for told in ("²".encode().decode("latin-1"), "nan", "-1", "x")]
    assert Endpoint(f"{service.address}#m", first_wait=0.0).encode(["abc"])[0, 0] == 3
    service.troubles = [(404, {"Content-Length": "9" * 30}, b"{}")]
    with pytest.raises(ModelError, match="404"):
        Endpoint(f"{service.address}#m").encode(["abc"])
    service.troubles = [(400, {}, b'{"error": {"message": ["\\u001b[31m"]}}'), (400, {}, b'{"error": "\\u001b[31mno"}')]
    for said in ("400 Bad Request$", r"400 Bad Request \(\\x1b\[31mno\)"):
        with pytest.raises(ModelError, match=said):
            Endpoint(f"{service.address}#m").encode(["abc"])

"""Bounds of size, time and memory, and clients that are slow or go away: on sockets, where a test decides what is sent."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from isogloss.serve.connections import Connection
from isogloss.types import FloatArray
from serve.services import PATIENCE, WIDTH, Held, Running, onnx_engine, running, until

Model = tuple[Path, FloatArray]
BODY = json.dumps({"input": [[5], [6]]}).encode()


def posted(body: bytes = BODY, *headers: str, length: int | None = None) -> bytes:
    lines = ["POST /v1/embeddings HTTP/1.1", "Host: x", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def received(connection: socket.socket) -> bytes:
    """All that is sent until the other side closes."""
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def status(response: bytes) -> int:
    return int(response.split(b" ")[1])


@pytest.fixture
def held(onnx_model: Model) -> Held:
    return Held(onnx_engine(onnx_model[0]))


def test_large_bodies_are_refused_declared_or_not(service: Running) -> None:
    body = json.dumps({"input": "x" * 2**20}).encode()
    answer = service.ask("/v1/embeddings", raw=body)
    assert answer.status == 413 and answer.error["code"] == "request_too_large" and "1 MiB" in answer.error["message"]
    chunk = b"10000\r\n" + b"x" * 2**16 + b"\r\n"
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with service.connect() as connection:
        connection.sendall(head + 17 * chunk + b"0\r\n\r\n")
        assert status(received(connection)) == 413
    assert service.service.bodies.held == 0


def test_a_body_of_gigabytes_is_not_read(service: Running) -> None:
    with service.connect() as connection:
        connection.sendall(posted(length=10**10))
        assert status(received(connection)) == 413
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with service.connect() as connection:
        connection.sendall(head)
        with pytest.raises(OSError, match=r"(?i)broken pipe|reset"):
            connection.sendall((b"100000\r\n" + b"x" * 2**20 + b"\r\n") * 100)
    assert service.service.bodies.held == 0


def test_bodies_together_are_bounded(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), max_body_mb=1, body_seconds=PATIENCE) as service, ExitStack() as open_ones:
        part = b"x" * (2**20 - 1000)
        for _ in range(8):
            open_ones.enter_context(service.connect()).sendall(posted(part, length=2**20))
        until(lambda: service.service.bodies.held == 8 * len(part))
        refused = service.ask("/v1/embeddings", raw=part)
        assert refused.status == 429 and refused.headers["retry-after"] == "1"
        assert service.embed([[5]]).shape == (1, WIDTH)
        open_ones.close()
        until(lambda: not service.service.bodies.held)
        assert service.ask("/v1/embeddings", raw=part).status == 400


def test_a_body_that_does_not_come_is_not_waited_for(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), body_seconds=0.2) as service, service.connect() as connection:
        connection.sendall(posted(length=1000))
        response = received(connection)
        assert status(response) == 408 and b"0.2 seconds" in response
        assert service.embed([[5]]).shape == (1, WIDTH)


def test_a_full_queue_is_429_with_the_time_to_wait(held: Held) -> None:
    with running(held, queue_tokens=10, threads=1) as service, ThreadPoolExecutor() as pool:
        first = pool.submit(service.ask, "/v1/embeddings", {"input": [[5] * 10]})
        assert held.entered.acquire(timeout=PATIENCE)  # it is computed, and waits no more
        second = pool.submit(service.ask, "/v1/embeddings", {"input": [[6] * 6]})
        until(lambda: service.waiting() == 6)
        refused = service.ask("/v1/embeddings", {"input": [[7] * 5]})
        assert refused.status == 429 and refused.error["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        held.gate.set()
        assert first.result().status == second.result().status == 200


def test_what_a_client_left_behind_is_not_computed(held: Held) -> None:
    with running(held, threads=1) as service, ThreadPoolExecutor() as pool:
        first = pool.submit(service.embed, [[5]])
        assert held.entered.acquire(timeout=PATIENCE)
        with service.connect() as connection:
            connection.sendall(posted(json.dumps({"input": [[6] * 3] * 40}).encode()))
            until(lambda: service.waiting() == 120)
        until(lambda: not service.waiting())
        held.gate.set()
        assert first.result().shape == (1, WIDTH)
        assert service.embed([[7] * 2]).shape == (1, WIDTH)
        assert held.computed == [[1], [2]]


def test_a_client_that_does_not_read_holds_up_nobody_and_is_cut_off(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), send_seconds=0.5) as service:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", service.port))
            large = json.dumps({"input": [[5, 6]] * 2000}).encode()
            for _ in range(20):  # their answers are more than all buffers take
                slow.sendall(posted(large))
            assert service.embed([[5]]).shape == (1, WIDTH)
            until(lambda: not service.server.server_state.connections)
        assert service.embed([[5]]).shape == (1, WIDTH)


def test_long_answers_come_whole_in_parts(service: Running, onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0])) as service:
        vectors = service.embed([[number % 90 + 5] for number in range(2000)])
        table = onnx_model[1]
        assert np.allclose(vectors, [table[number % 90 + 5] for number in range(2000)], atol=1e-6)


def test_connections_without_a_request_are_ended(service: Running) -> None:
    with service.connect() as connection:
        connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nX-Slow: ")
        until(lambda: service.server.server_state.connections)
        ended = threading.Event()

        def end() -> None:
            for one in list(service.server.server_state.connections):
                assert isinstance(one, Connection)
                one.end_if_idle_for(1000.0)
                assert not one.transport.is_closing()
                one.end_if_idle_for(-1.0)
            ended.set()

        loop = next(iter(service.server.server_state.connections)).loop
        loop.call_soon_threadsafe(end)
        assert ended.wait(PATIENCE)
        with suppress(ConnectionResetError):  # there was something that the service had not read
            assert connection.recv(1) == b""


def test_many_requests_on_one_connection(service: Running) -> None:
    with service.connect() as connection:
        connection.sendall(posted() * 3 + posted(BODY, "Connection: close"))
        assert received(connection).count(b"HTTP/1.1 200 OK") == 4


def test_stopping_answers_what_was_accepted(held: Held) -> None:
    with running(held, threads=1) as service, ThreadPoolExecutor() as pool:
        accepted = [pool.submit(service.embed, [[5]])]
        assert held.entered.acquire(timeout=PATIENCE)
        accepted += [pool.submit(service.embed, [[6 + number]]) for number in range(3)]
        until(lambda: service.waiting() == 3)
        with service.connect() as idle:
            until(lambda: len(service.server.server_state.connections) == 5)
            service.server.should_exit = True
            until(lambda: service.service.state == "stopping")
            idle.sendall(posted())  # on its way while the service stops
            response = received(idle)
        assert status(response) == 503 and b"retry-after: 1" in response.lower() and b"connection: close" in response.lower()
        held.gate.set()
        assert [one.result().shape for one in accepted] == [(1, WIDTH)] * 4
        service.thread.join(PATIENCE)
        assert not service.thread.is_alive()
    with pytest.raises(ConnectionError):
        service.connect()


def test_stopping_does_not_wait_for_ever(held: Held) -> None:
    with running(held, threads=1, drain_seconds=0.0) as service, service.connect() as connection:
        connection.sendall(posted())
        assert held.entered.acquire(timeout=PATIENCE)
        service.server.should_exit = True
        assert b"HTTP/1.1 200" not in received(connection)
        held.gate.set()
        service.stop()

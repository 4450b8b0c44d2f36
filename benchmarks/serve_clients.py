"""Many clients in one thread, as cheap as Python allows: they share the cores with the service that they measure.

    python serve_clients.py PORT SECONDS CLIENTS BODIES ANSWERS

BODIES has one request body per line. Each client sends the next one as soon as its last was answered. Answers are kept as they
come and written to ANSWERS (pickle) at the end: number of the body, seconds, status, response, seconds since the start.
Status 0: the service closed the connection without an answer.
"""

import pickle
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

HEAD = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
PATIENCE = 60.0
STEP = 7919  # prime: clients walk through all bodies


@dataclass(eq=False)
class Client:
    """A connection with a request on its way."""

    connection: socket.socket
    status: int = 0
    number: int = 0
    began: float = 0.0
    received: bytearray = field(default_factory=bytearray)
    head: int = -1  # bytes of the response's head, once it is complete
    length: int = 0

    def send(self, number: int, request: bytes) -> None:
        """Send a request; they are small, so it never blocks."""
        self.number, self.began, self.head = number, time.perf_counter(), -1
        self.received.clear()
        self.connection.send(request)

    def is_answered(self) -> bool:
        """Receive what there is; whether the response is complete."""
        part = self.connection.recv(1 << 18)
        if not part:
            self.status, self.head = 0, len(self.received)
            return True
        self.received += part
        if self.head < 0 and (end := self.received.find(b"\r\n\r\n")) >= 0:
            self.head = end + 4
            lower = bytes(self.received[:end]).lower()
            self.length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            self.status = int(lower[9:12])
        return self.head >= 0 and len(self.received) >= self.head + self.length


def connected(selector: selectors.BaseSelector, port: int) -> Client:
    """A client with a connection of its own."""
    client = Client(socket.create_connection(("127.0.0.1", port), PATIENCE))
    client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    selector.register(client.connection, selectors.EVENT_READ, client)
    return client


def run(port: int, seconds: float, clients: int, bodies: list[bytes]) -> list[tuple[int, float, int, bytes, float]]:
    """Ask for so long, and wait for what is on its way then."""
    requests = [HEAD.format(len(body)).encode() + body for body in bodies]
    order, answers = count(), []
    selector = selectors.DefaultSelector()
    for _ in range(clients):
        number = next(order) * STEP % len(requests)
        connected(selector, port).send(number, requests[number])
    busy, start = clients, time.perf_counter()
    stop = start + seconds
    while busy:
        events = selector.select(PATIENCE)
        if not events:
            raise SystemExit(f"{busy} requests got no answer in {PATIENCE:g} seconds")
        for key, _event in events:
            client = key.data
            if not client.is_answered():
                continue
            now = time.perf_counter()
            body = bytes(client.received[client.head :])
            answers.append((client.number, now - client.began, client.status, body, now - start))
            if now >= stop or not client.status:
                selector.unregister(client.connection)
                client.connection.close()
            if now >= stop:
                busy -= 1
                continue
            client = client if client.status else connected(selector, port)
            number = next(order) * STEP % len(requests)
            client.send(number, requests[number])
    return answers


if __name__ == "__main__":
    port, seconds, clients, bodies, out = sys.argv[1:]
    found = run(int(port), float(seconds), int(clients), Path(bodies).read_bytes().splitlines())
    Path(out).write_bytes(pickle.dumps(found))

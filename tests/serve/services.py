"""Services that the tests start: real uvicorn on a free port of this process, with tiny real models.

`Held` is around an engine and lets a test decide when batches are computed.
"""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from isogloss.config.serving import ServeSettings
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.student import Student
from isogloss.serve.engine import Engine, Facts, InputType, OnnxEngine, Served, TorchEngine
from isogloss.serve.keys import ApiKeys
from isogloss.serve.server import make_server
from isogloss.serve.service import Service
from isogloss.types import FloatArray
from tiny import unigram

WIDTH = 8
PATIENCE = 30.0  # seconds after which something is taken to hang
PAUSE = 0.005


def save_onnx(folder: Path, **config: object) -> FloatArray:
    """A model in ONNX: the mean of the rows of a table, which is given back. `config` is of sentence-transformers."""
    tokenizer = unigram()
    tokenizer.save_pretrained(folder)
    table = np.random.default_rng(0).normal(size=(len(tokenizer), WIDTH)).astype(np.float32)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS]
    axes = [numpy_helper.from_array(np.array([number], dtype=np.int64), f"axis{number}") for number in (1, 2)]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axis2"], ["weights"]),
        helper.make_node("Mul", ["rows", "weights"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "axis1"], ["sums"], keepdims=0),
        helper.make_node("ReduceSum", ["weights", "axis1"], ["counts"], keepdims=0),
        helper.make_node("Div", ["sums", "counts"], ["sentence_embedding"]),
    ]
    output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", WIDTH])
    weights = [numpy_helper.from_array(table, "table"), *axes]
    graph = helper.make_graph(nodes, "mean", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    (folder / "onnx").mkdir()
    onnx.save(model, str(folder / "onnx/model.onnx"))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return table


INPUTS = ("input_ids", "attention_mask")


def onnx_engine(folder: Path, name: str = "tiny", **facts: Any) -> OnnxEngine:  # noqa: ANN401
    """The engine of `save_onnx`."""
    return OnnxEngine(Facts(name, "cpu", "fp32", **facts), OnnxEncoder(folder, threads=1))


def torch_engine(folder: Path, name: str = "tiny", **facts: Any) -> TorchEngine:  # noqa: ANN401
    """The engine of a sentence-transformers folder."""
    return TorchEngine(Facts(name, "cpu", "fp32", **facts), Student.from_pretrained(str(folder), device="cpu"))


class Held:
    """An engine that computes when `release` is called; `computed` has the lengths of the rows of each batch."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.facts, self.shared = engine, engine.facts, engine.shared
        self.dimension, self.max_tokens, self.vocabulary = engine.dimension, engine.max_tokens, engine.vocabulary
        self.gate, self.entered = threading.Event(), threading.Semaphore(0)
        self.computed: list[list[int]] = []

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        return self.engine.token_ids(texts, input_type)

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        self.entered.release()
        assert self.gate.wait(PATIENCE)
        self.computed.append([len(row) for row in rows])
        return self.engine.encode_ids(rows)


@dataclass
class Running:
    """A service that runs, and what a test asks it."""

    service: Service
    server: Any
    port: int
    key: str = ""
    thread: threading.Thread = field(default_factory=threading.Thread)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: object = None, raw: bytes | None = None, key: str | None = None) -> "Answer":
        """GET, or POST with a body."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        if key or self.key:
            request.add_header("Authorization", f"Bearer {self.key if key is None else key}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def embed(self, given: object, **fields: object) -> FloatArray:
        """The vectors of an input."""
        answer = self.ask("/v1/embeddings", {"input": given, **fields})
        assert answer.status == 200, answer.body
        rows = sorted(answer.json["data"], key=lambda row: int(row["index"]))
        return np.array([row["embedding"] for row in rows], dtype=np.float32)

    def waiting(self) -> int:
        """Tokens in the queue."""
        return int(self.service.metrics.registry.get_sample_value("isogloss_queue_tokens") or 0)

    def connect(self) -> socket.socket:
        """A connection on which a test speaks HTTP itself."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def stop(self) -> None:
        """What a signal does, and wait for the end."""
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON can hold
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error as the OpenAI API has it."""
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so, which another thread does."""
    for _ in range(int(PATIENCE / PAUSE)):
        if condition():
            return
        time.sleep(PAUSE)
    raise AssertionError("it does not come")


@contextmanager
def running(*engines: Engine, keys: Sequence[str] = (), **settings: Any) -> Iterator[Running]:  # noqa: ANN401
    """A service with these engines, already warm; with none it goes on starting."""
    values = ServeSettings(**{"threads": 2, "drain_seconds": 10.0} | settings)
    server, service = make_server(values, ApiKeys(keys))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Running(service, server, listener.getsockname()[1], keys[0] if keys else "")
        if engines:
            service.open([Served(engine, values.batch_tokens or 256, unit_length=True) for engine in engines])
        running.thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        running.thread.start()
        try:
            yield running
        finally:
            for engine in engines:
                if isinstance(engine, Held):
                    engine.gate.set()
            running.stop()

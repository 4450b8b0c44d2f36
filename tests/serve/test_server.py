"""The command itself, in a process: what it says at its start, what a signal does, and what is refused before it listens."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from isogloss.config.serving import ServeSettings
from isogloss.errors import IsoglossError
from isogloss.serve.keys import ApiKeys
from isogloss.serve.server import _listening, _warn_of_open_door, serve
from isogloss.types import FloatArray
from serve.services import PATIENCE, WIDTH

Model = tuple[Path, FloatArray]
BODY = json.dumps({"input": [[5, 6], [7]]})


@contextmanager
def command(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`isogloss serve` on a free port; the process is ended with the block."""
    line = [sys.executable, "-m", "isogloss", "serve", "--port", "0", "--threads", "1", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def port_in(line: str) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", line)
    assert found, line
    return int(found[1])


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_signal_under_load_loses_no_accepted_request(onnx_model: Model) -> None:
    """Every request gets vectors or, once the service stops, a refusal or no connection; never half an answer."""

    def client(port: int) -> list[int]:
        statuses: list[int] = []
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        while True:
            try:
                connection.request("POST", "/v1/embeddings", BODY)
            except ConnectionError:  # nothing was accepted: the connection was closed before
                return statuses
            try:
                response = connection.getresponse()
            except ConnectionRefusedError:
                return statuses
            answer = json.loads(response.read())
            statuses.append(response.status)
            if response.status != 200:
                return statuses
            assert [len(row["embedding"]) for row in answer["data"]] == [WIDTH, WIDTH]
            if len(statuses) == 20:
                process.send_signal(signal.SIGTERM)

    with command(f"onnx:{onnx_model[0]}", "--name", "served") as process, ThreadPoolExecutor() as pool:
        line = line_of(process)
        assert "serving served (fp32 on cpu)" in line and "(page: http://127.0.0.1:" in line
        found = [one.result() for one in [pool.submit(client, port_in(line)) for _ in range(6)]]
        assert process.wait(PATIENCE) == 0
        assert all(set(one) <= {200, 503} and one.count(503) <= 1 for one in found)
        assert max(map(len, found)) >= 20
        assert line_of(process).startswith("stopped")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_stop_it_in_order_too(onnx_model: Model, number: signal.Signals) -> None:
    with command(f"onnx:{onnx_model[0]}", "--log-requests") as process:
        port = port_in(line_of(process))
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request(
            "POST", "/v1/embeddings", json.dumps({"input": "a private text"}), {"Authorization": "Bearer hidden"}
        )
        assert connection.getresponse().read()
        connection.close()
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        rest = process.stderr.read()
        assert re.search(r"^127\.0\.0\.1 POST /v1/embeddings 200 [\d.]+ ms$", rest, re.MULTILINE)
        assert "private" not in rest and "hidden" not in rest


def test_an_exported_model_is_served_without_torch(onnx_model: Model) -> None:
    code = f"""
import sys, threading
from isogloss.config.serving import ServeSettings
from isogloss.serve.server import make_server, open_models
settings = ServeSettings(threads=1)
server, service = make_server(settings)
open_models(service, ["onnx:{onnx_model[0]}"], ["tiny"], settings)
import json
prepared = service.prepare(json.dumps({{"input": "the cat"}}).encode())
print(sorted(name for name in ("torch", "transformers", "sentence_transformers", "scipy", "sklearn") if name in sys.modules))
service.close()
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == "[]\n"


def refusal(*models: str, names: Sequence[str] = (), **settings: Any) -> IsoglossError:
    with pytest.raises(IsoglossError) as found:
        serve(models, names, ServeSettings(**{"port": 0} | settings))
    return found.value


def test_a_port_in_use_is_reported_before_a_model_is_loaded(onnx_model: Model) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = refusal(f"onnx:{onnx_model[0]}", port=port)
    assert f"127.0.0.1 port {port}: cannot listen there" in error.message and "--port" in error.hint


def test_what_cannot_be_served_is_refused_first(tmp_path: Path, onnx_model: Model) -> None:
    model = f"onnx:{onnx_model[0]}"
    assert "no such folder" in refusal(str(tmp_path / "missing")).message
    assert "no ONNX export" in refusal(f"onnx:{tmp_path}").message
    assert "two models are called 'a'" in refusal(model, model, names=["a", "a"]).message
    assert "two models are called" in refusal(model, model).message
    assert "2 names for 1" in refusal(model, names=["a", "b"]).message
    assert "name is empty" in refusal(model, names=[" "]).message
    assert "no such address" in refusal(model, host="no such host").message


def test_a_model_that_cannot_be_loaded_ends_the_service(onnx_model: Model, tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx/model.onnx").write_bytes(b"nothing")
    (tmp_path / "tokenizer.json").write_bytes((onnx_model[0] / "tokenizer.json").read_bytes())
    assert "cannot be run" in refusal(f"onnx:{tmp_path}").message


def test_an_address_for_everybody_without_keys_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_open_door(ServeSettings(), ApiKeys([]))
    _warn_of_open_door(ServeSettings(host="0.0.0.0"), ApiKeys(["key"]))
    assert not caplog.text
    _warn_of_open_door(ServeSettings(host="0.0.0.0"), ApiKeys([]))
    assert "--api-keys" in caplog.text


def test_a_free_port_is_found() -> None:
    with _listening(ServeSettings(port=0)) as one, _listening(ServeSettings(port=0)) as other:
        assert one.getsockname()[1] != other.getsockname()[1]

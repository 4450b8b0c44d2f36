"""The design of `isogloss serve` beside others, under the same load: who computes a batch, with how many sessions and threads.

    python benchmarks/serve_designs.py --model runs/quickstart/export/onnx

isogloss has one onnxruntime session of one thread, which a worker for each core calls. The others differ in one thing: fewer or
more workers, a session for each worker, one worker whose session computes on all cores, batches of other sizes. Everything else
is the service itself: its routes, queue, batches and workers. Each is asked by one client and by 32, who use the same cores.
The first design is measured again at the end, which shows how steady the machine is. Takes about five minutes on two cores;
goes to benchmarks/results/serve_designs.json.
"""

import argparse
import json
import os
import queue
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance
from serve_load import LOWEST, checked, measured, own_vectors, sentences

from isogloss.config.serving import ServeSettings
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.serve.engine import OnnxEngine, Served
from isogloss.serve.opening import open_engine
from isogloss.serve.server import make_server
from isogloss.storage import write_json
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results") / "serve_designs.json"


@dataclass(frozen=True, slots=True)
class Design:
    """How many threads call how many sessions, each with how many threads; 0 is the number of cores."""

    workers: int = 0
    sessions: int = 1
    threads: int = 1  # of the session, if it is one, for a batch
    batch_tokens: int = 0  # 0: the service's default


def designs(cores: int) -> dict[str, Design]:
    """What is compared, by name; the first is the service as it is."""
    found = {
        "one session, a worker per core": Design(),
        "one session, one worker fewer": Design(workers=max(1, cores - 1)),
        "one session, two workers per core": Design(workers=2 * cores),
        "a session for each worker": Design(sessions=0),
        "one worker, one session on all cores": Design(workers=1, threads=0),
        "a worker per core, one session on all cores": Design(threads=0),
    }
    return found | {f"batches of at most {size} tokens": Design(batch_tokens=size) for size in (256, 512, 2048, 4096)}


class ManySessions(OnnxEngine):
    """An engine in which every thread computes with a session that no other thread uses at that time."""

    def __init__(self, engine: OnnxEngine, encoders: Sequence[OnnxEncoder]) -> None:
        super().__init__(engine.facts, encoders[0])
        self._free: queue.SimpleQueue[OnnxEncoder] = queue.SimpleQueue()
        for encoder in encoders:
            self._free.put(encoder)

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of a batch, by a session that is free."""
        encoder = self._free.get()
        try:
            return encoder.encode_ids(rows)
        finally:
            self._free.put(encoder)


def run_service(design: Design, model: str, port: int, cores: int) -> None:
    """Serve until a signal comes."""
    settings = ServeSettings(
        port=port, device="cpu", precision="int8", threads=design.workers or cores, batch_tokens=design.batch_tokens
    )
    engine = open_engine(model, "model", settings).engine
    assert isinstance(engine, OnnxEngine), "int8 is computed by onnxruntime"
    graph = engine._encoder.graph
    if design.sessions != 1:
        engine = ManySessions(engine, [OnnxEncoder(graph, 1) for _ in range(design.sessions or cores)])
    elif design.threads != 1:
        engine = OnnxEngine(engine.facts, OnnxEncoder(graph, design.threads or cores))
    server, service = make_server(settings)
    service.open([Served.warmed(engine, design.batch_tokens)])
    with socket.create_server(("127.0.0.1", port)) as listener:
        server.run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a finished run, or the folder of its ONNX export")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each design, with each number of clients")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--sentences", type=int, default=1000, help="distinct sentences that are asked for")
    parser.add_argument("--only", nargs="*", help="only designs whose names contain one of these")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)  # a design as JSON: serve it, at --port
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    model = args.model if not (Path(args.model) / "onnx").is_dir() else f"onnx:{args.model}"
    if args.serve:
        run_service(Design(**json.loads(args.serve)), model, args.port, args.cores)
        return
    texts = sentences()
    texts = [texts[place] for place in np.linspace(0, len(texts) - 1, min(args.sentences, len(texts))).astype(int)]
    wanted = own_vectors(model, "int8", texts)
    compared = {
        name: one for name, one in designs(args.cores).items() if not args.only or any(part in name for part in args.only)
    }
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        bodies = Path(place) / "bodies"
        bodies.write_bytes(b"\n".join(json.dumps({"input": text}).encode() for text in texts))
        for name, design in [*compared.items(), next(iter(compared.items()))]:
            row: dict[str, Any] = {"name": name, **asdict(design), "clients": {}}
            for clients in args.clients:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                command = [__file__, "--model", args.model, "--cores", str(args.cores)]
                command += ["--serve", json.dumps(asdict(design)), "--port", str(port)]
                found = measured(command, port, args.seconds, argparse.Namespace(clients=clients), bodies)
                row["clients"][str(clients)] = checked(found, wanted, LOWEST["int8"])
            rows.append(row)
            rates = ", ".join(f"{count}: {one['requests_per_second']:,.0f}/s" for count, one in row["clients"].items())
            print(f"{name:<45} {rates}", flush=True)
    facts = {"model": Path(args.model).name, "cores": args.cores, "sentences": len(texts), "seconds": args.seconds}
    write_json(args.out, provenance(0) | facts | {"designs": rows})


if __name__ == "__main__":
    main()

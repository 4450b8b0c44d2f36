"""`isogloss serve` beside a plain FastAPI loop over `SentenceTransformer.encode`, at 32 clients on the same cores.

    python benchmarks/serve_load.py --model runs/quickstart

One run: the same model, the same requests (a sentence each, of the phrasebook in all its languages), one service after another.
The loop is tried in three variants for a few seconds, the best one is measured. Every answer is compared with the vector that
the model gives for that sentence alone. Takes about four minutes on two cores if the model's int8 export exists. Requests/s,
latencies and errors go to benchmarks/results/serve_load.json.
"""

import argparse
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measuring import _held
from plain_loop import VARIANTS
from provenance import provenance

from isogloss.config.serving import ServedPrecision, ServeSettings
from isogloss.corpora import phrasebook
from isogloss.corpora.reading.readers import bitext_of
from isogloss.models.loading import local_model_folder
from isogloss.storage import write_json
from isogloss.types import FloatArray

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "serve_load.json"
LOWEST = {"int8": 0.93, "fp32": 0.9999, "plain loop": 0.9999}  # cosine to the model's own vector; below, an answer is wrong
PRECISIONS: tuple[ServedPrecision, ...] = ("int8", "fp32")
WARM_UP_SECONDS, START_SECONDS = 3.0, 900.0


def sentences() -> list[str]:
    """Distinct sentences of the phrasebook, English and translations."""
    table = bitext_of(str(phrasebook.path())).table
    return list(dict.fromkeys(table.column("source").to_pylist() + table.column("target").to_pylist()))


@contextmanager
def service(command: list[str], port: int) -> Iterator[int]:
    """A service that is ready; its process id."""
    environment = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM")}
    process = subprocess.Popen([sys.executable, *command], env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{' '.join(command)}: does not start") from None
                time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def measured(command: list[str], port: int, seconds: float, args: argparse.Namespace, bodies: Path) -> dict[str, Any]:
    """Requests per second, latencies and memory of a service, with all its answers."""
    answers_file = bodies.with_name("answers")
    with service(command, port) as process:
        for duration in (WARM_UP_SECONDS, seconds):
            clients = [
                str(HERE / "serve_clients.py"),
                str(port),
                str(duration),
                str(args.clients),
                str(bodies),
                str(answers_file),
            ]
            subprocess.run([sys.executable, *clients], check=True)
        memory = _held(process)
    answers = pickle.loads(answers_file.read_bytes())
    took = np.array([second for _number, second, _status, _body, _since in answers])
    return {
        "seconds": seconds,
        "requests": len(answers),
        "requests_per_second": round(sum(one[4] <= seconds for one in answers) / seconds, 1),
        "p50_ms": round(1000 * float(np.percentile(took, 50)), 1),
        "p99_ms": round(1000 * float(np.percentile(took, 99)), 1),
        "slowest_ms": round(1000 * float(took.max()), 1),
        "memory_mib": round(memory.resident / 1024),
        "answers": answers,
    }


def checked(found: dict[str, Any], wanted: FloatArray, lowest: float) -> dict[str, Any]:
    """The measurement without its answers, but with how many of them were refused or wrong."""
    cosines, errors = [], 0
    for number, _seconds, status, body, _since in found.pop("answers"):
        if status != 200:
            errors += 1
            continue
        vector, own = np.array(json.loads(body)["data"][0]["embedding"], dtype=np.float32), wanted[number]
        cosines.append(float(vector @ own) / float(np.linalg.norm(vector) * np.linalg.norm(own)))
    wrong = sum(cosine < lowest for cosine in cosines)
    return found | {"errors": errors, "wrong": wrong, "lowest_cosine": round(min(cosines, default=0.0), 5)}


def own_vectors(model: str, precision: ServedPrecision, texts: list[str]) -> FloatArray:
    """The vector of each sentence alone."""
    from isogloss.serve.opening import open_engine

    engine = open_engine(model, "model", ServeSettings(precision=precision, device="cpu")).engine
    return np.concatenate([engine.encode_ids([row]) for row in engine.token_ids(texts)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a finished run, or a folder")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the two services that are compared")
    parser.add_argument("--short", type=float, default=15.0, help="seconds of the others")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="cores of isogloss serve; 0: all")
    parser.add_argument("--sentences", type=int, default=2000, help="distinct sentences that are asked for")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    texts = sentences()
    texts = [texts[place] for place in np.linspace(0, len(texts) - 1, min(args.sentences, len(texts))).astype(int)]
    folder = local_model_folder(args.model)
    assert folder is not None, "name a folder, so that sentence-transformers loads the same files"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        bodies = Path(place) / "bodies"
        bodies.write_bytes(b"\n".join(json.dumps({"input": text}).encode() for text in texts))
        wanted = {precision: own_vectors(args.model, precision, texts) for precision in PRECISIONS}

        def ours(precision: ServedPrecision, seconds: float) -> dict[str, Any]:
            options = ["--precision", precision, "--device", "cpu", "--threads", str(args.threads), "--port", str(port)]
            found = measured(["-m", "isogloss", "serve", args.model, *options], port, seconds, args, bodies)
            return checked(found, wanted[precision], LOWEST[precision])

        def plain(variant: str, seconds: float) -> dict[str, Any]:
            command = [str(HERE / "plain_loop.py"), str(folder), str(port), variant]
            return checked(measured(command, port, seconds, args, bodies), wanted["fp32"], LOWEST["plain loop"])

        tried = {variant: plain(variant, args.short)["requests_per_second"] for variant in VARIANTS}
        best = max(tried, key=lambda variant: tried[variant])
        results["plain loop"] = plain(best, args.seconds) | {"variant": best, "tried": tried}
        results["int8"] = ours("int8", args.seconds)
        results["fp32"] = ours("fp32", args.short)
    rates = {name: one["requests_per_second"] for name, one in results.items()}
    facts = {
        "model": Path(args.model).name,
        "clients": args.clients,
        "sentences": len(texts),
        "times_as_many": {name: round(rates[name] / rates["plain loop"], 2) for name in ("int8", "fp32")},
    }
    write_json(args.out, provenance(0) | facts | {"services": results})
    print(json.dumps(facts | {"services": results}, indent=2))


if __name__ == "__main__":
    main()

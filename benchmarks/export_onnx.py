"""ONNX exports beside torch and beside sentence-transformers' own int8 export: speed, size and closeness, on two cores.

    python benchmarks/export_onnx.py --run runs/quickstart --data ../shared/data --peer-python ../peer/bin/python

All ways embed the same distinct sentences in many languages, in turn, round after round; what counts is the fastest round.

    torch fp32             sentence-transformers' `encode`, at each batch size; the best one is the yardstick
    isogloss fp32, …       `OnnxEncoder`: sorted by length, batches by their number of tokens
    onnxruntime fp32, …    the same files in a plain loop: sorted, padded batches of 1, 32, …
    the peer's int8        `export_dynamic_quantized_onnx_model` and `encode` of sentence-transformers with optimum, in the
                           environment of --peer-python, which is started again in each round

Accuracy: queries in each language in the teacher's index, on held-out pairs of the run, and Tatoeba (translation to English) if
--tatoeba names languages. Goes to benchmarks/results/export_onnx.json; `tables.py` writes the table.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encode_cpu import sentences
from provenance import provenance

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import export
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results") / "export_onnx.json"
BATCHES = (8, 16, 32, 64, 128, 256)
PRECISIONS = ("fp32", "fp16", "int8")
PEER = """
import json, sys, time
import numpy as np
from pathlib import Path
from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model
work, threads, batches = json.load(open(sys.argv[1]))
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
folder = Path(work["folder"])
quantized = folder / "onnx" / "model_qint8_avx512_vnni.onnx"
if not quantized.is_file():
    model = SentenceTransformer(work["model"], backend="onnx", device="cpu", model_kwargs={"export": True})
    model.save_pretrained(str(folder))
    export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(folder))
file = "onnx/model_qint8_avx512_vnni.onnx"
how = {"file_name": file, "session_options": options}
model = SentenceTransformer(str(folder), backend="onnx", device="cpu", model_kwargs=how)
model.encode(work["texts"][:64])
seconds = {}
for size in batches:
    began = time.perf_counter()
    vectors = model.encode(work["texts"], batch_size=size, show_progress_bar=False)
    seconds[str(size)] = time.perf_counter() - began
np.save(work["out"], model.encode(work["measured"], batch_size=32, show_progress_bar=False))
json.dump({"seconds": seconds, "megabytes": quantized.stat().st_size / 1e6}, open(work["times"], "w"))
"""


def plainly(path: Path, texts: list[str], size: int, threads: int) -> Callable[[], FloatArray]:
    """The graph in a plain loop over padded batches, sorted by length."""
    encoder = OnnxEncoder(path, threads)

    def encode() -> FloatArray:
        rows = encoder.token_ids(texts)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]), reverse=True)
        vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            vectors[places] = encoder.encode_ids([rows[place] for place in places])
        return vectors

    return encode


class Peer:
    """sentence-transformers' own int8 export, in another environment."""

    def __init__(self, python: str, model: str, texts: list[str], measured: list[str], folder: Path, threads: int) -> None:
        self.python, self.folder = python, folder
        self.out, self.times, self.task = folder / "vectors.npy", folder / "times.json", folder / "task.json"
        work = {"folder": str(folder / "export"), "model": model, "texts": texts, "measured": measured}
        work |= {"out": str(self.out), "times": str(self.times)}
        self.task.write_text(json.dumps([work, threads, list(BATCHES)]))
        (folder / "peer.py").write_text(PEER)

    def run(self) -> dict[str, Any]:
        """One round of all batch sizes."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [self.python, str(self.folder / "peer.py"), str(self.task)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=own)
        found: dict[str, Any] = json.loads(self.times.read_text())
        return found


def ways_of(source: ExportSource, files: dict[str, Path], texts: list[str], threads: int) -> dict[str, Callable[[], Any]]:
    """Everything that is timed in this process."""
    model = source.student.model
    ways: dict[str, Callable[[], Any]] = {}
    for size in BATCHES:
        ways[f"torch fp32, batch {size}"] = lambda size=size: model.encode(texts, batch_size=size, show_progress_bar=False)  # type: ignore[misc]
    for name, path in files.items():
        encoder = OnnxEncoder(path, threads)
        ways[f"isogloss {name}"] = lambda encoder=encoder: encoder.encode(texts)  # type: ignore[misc]
        for size in (1, *BATCHES):
            ways[f"onnxruntime {name}, batch {size}"] = plainly(path, texts, size, threads)
    return ways


def timed(ways: dict[str, Callable[[], Any]], peer: Peer | None, rounds: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each way in each round, one after the other; before the first there is a warm-up."""
    seconds: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if turn:
                seconds.setdefault(name, []).append(time.perf_counter() - began)
        if peer is not None and turn:
            found = peer.run()
            for size, took in found["seconds"].items():
                seconds.setdefault(f"sentence-transformers int8, batch {size}", []).append(took)
        print(f"round {turn} of {rounds}", flush=True)
    return seconds, found


def best_of(seconds: dict[str, list[float]], start: str) -> tuple[str, float]:
    """The fastest way whose name starts so, and its fastest round."""
    return min(((name, min(times)) for name, times in seconds.items() if name.startswith(start)), key=lambda pair: pair[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="runs/quickstart")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--peer-python", default="", help="python with optimum-onnx; without it the peer's int8 is left out")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--suite", default="", help="such as tatoeba-14")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts = sentences(options.data, options.sentences, 17)["16 languages"]
    limits = {"min_cosine": 0.0, "max_loss": 100.0}
    settings = ExportSettings(precisions=PRECISIONS, suite=options.suite, **limits)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as place:
        exported = export(options.run, "onnx", Path(place) / "onnx", settings=settings)
        source = ExportSource(options.run, settings)
        files = {artifact.name: artifact.path for artifact in exported.artifacts}
        comparison, peer = Comparison(source), None
        if options.peer_python:
            copy = Path(place) / "model"  # the peer's transformers may be older
            shutil.copytree(source.run.model if source.run else options.run, copy)
            peer = Peer(options.peer_python, str(copy), texts, comparison.texts, Path(place), options.threads)
        seconds, of_peer = timed(ways_of(source, files, texts, options.threads), peer, options.rounds)
        artifacts = {one.name: one for one in exported.artifacts}
        if peer is not None:
            vectors = np.load(peer.out)
            artifacts["peer int8"] = comparison.compare("peer int8", peer.out, of_peer["megabytes"], vectors)
    yardstick, base = best_of(seconds, "torch fp32")
    starts = {f"isogloss {name}" for name in files} | {f"onnxruntime {name}" for name in files}
    starts |= {"sentence-transformers int8"} if peer is not None else set()
    best = {start: best_of(seconds, start) for start in sorted(starts)}
    result = provenance(17) | {
        "sentences": len(texts),
        "rounds": options.rounds,
        "threads": options.threads,
        "torch": {"best": yardstick, "sentences_per_second": round(len(texts) / base, 1)},
        "original_accuracy": round(float(np.mean(list(comparison.original.values()))), 4),
        "best": {
            start: {"way": way, "sentences_per_second": round(len(texts) / took, 1), "times_torch": round(base / took, 2)}
            for start, (way, took) in best.items()
        },
        "files": {
            name: {
                "megabytes": round(one.megabytes, 1),
                "cosine": round(one.cosine, 5),
                "accuracy": round(one.accuracy, 4),
                "lost": round(one.lost, 2),
            }
            for name, one in artifacts.items()
        },
        "sentences_per_second": {name: round(len(texts) / min(times), 1) for name, times in seconds.items()},
        "seconds": {name: [round(one, 3) for one in times] for name, times in seconds.items()},
        "suite": None if exported.suite is None else exported.suite.as_dict(),
    }
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({name: result[name] for name in ("torch", "best", "files")}, indent=2))


if __name__ == "__main__":
    main()

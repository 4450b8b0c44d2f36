"""Exported models in the programs that run them: size, closeness, score and speed, on two cores.

    python benchmarks/exports.py runs/quickstart

Exports the run to ONNX and OpenVINO in every precision, and to static models with the whole vocabulary and with that of the
run's text. Each file is measured in the programs that load it: each in a process of its own with the same two cores, in turn.
It embeds the same held-out sentences (`exporting/comparison.py`: cosine to the original, accuracy), then sentences drawn from
them one by one and in batches of 32, as they come; of the rounds, the median counts. Rows that are not there need
`make runtimes`, or node. Exports of the same model and settings that are in --exports already are not written again. Goes to
benchmarks/results/exports.json.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from provenance import provenance

from isogloss.config.exporting import ExportSettings, Precision, Trim
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import export
from isogloss.exporting.output import RECORD
from isogloss.exporting.source import ExportSource
from isogloss.storage import read_json

HERE = Path(__file__).parent
RESULTS, RUNTIMES = HERE / "results", HERE.parent / ".runtimes"
SEED, BATCHES = 17, (1, 32)
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8")
STATIC: dict[str, Trim] = {"static": "off", "static, trimmed": "corpus"}


@dataclass(frozen=True, slots=True)
class Row:
    """One file in one program. `way` is a function of export_ways.py, or node."""

    program: str
    precision: str
    way: str
    folder: Path
    file: str
    packages: str = ""  # a folder of .runtimes that comes first in the path


@dataclass(frozen=True, slots=True)
class Export:
    """A folder that was exported, and the file of each precision in it."""

    folder: Path
    files: dict[str, str]

    @classmethod
    def of(cls, source: ExportSource, target: str, folder: Path, settings: ExportSettings) -> "Export":
        """Export to `folder`, unless this very export is there."""
        record = read_json(folder / RECORD) if (folder / RECORD).is_file() else {}
        wanted = (source.student.fingerprint, settings.model_dump(mode="json"))
        if (record.get("fingerprint"), record.get("settings")) != wanted:
            print(f"exporting: {folder}", flush=True)
            export(source.name, target, folder, settings=settings)
            record = read_json(folder / RECORD)
        return cls(folder, {one["name"]: one["path"] for one in record["artifacts"]})


def rows(model: Path, onnx: Export, openvino: Export, static: dict[str, Export]) -> Iterator[Row]:
    """What is measured, as far as it is installed."""
    yield Row("sentence-transformers", "fp32", "sentence_transformers", model, "")
    yield Row("isogloss", "fp32", "isogloss", model, "")
    for precision, file in onnx.files.items():
        yield Row("onnxruntime", precision, "onnxruntime", onnx.folder, file)
        yield Row("sentence-transformers, onnx", precision, "onnx_backend", onnx.folder, file, "onnx-backend")
        yield Row("fastembed", precision, "fastembed", onnx.folder, file)
        yield Row("transformers.js", precision, "node", onnx.folder, file, "transformers.js")
    for precision, file in openvino.files.items():
        yield Row("openvino", precision, "openvino", openvino.folder, file)
        yield Row("sentence-transformers, openvino", precision, "openvino_backend", openvino.folder, file, "openvino-backend")
    for name, one in static.items():
        yield Row("sentence-transformers", name, "sentence_transformers", one.folder, "")
        yield Row("isogloss", name, "isogloss", one.folder, "")


def available(row: Row) -> bool:
    installed = not row.packages or (RUNTIMES / f"{row.packages}.installed").is_file()
    return installed and (row.way != "node" or shutil.which("node") is not None)


def megabytes(row: Row) -> float:
    """What is loaded: a graph with its weights, or the weights of all modules; without the tokenizer."""
    if not row.file:
        return sum(path.stat().st_size for path in row.folder.rglob("*.safetensors")) / 1e6
    graph = row.folder / row.file
    parts = [graph, graph.with_name(f"{graph.name}_data"), graph.with_suffix(".bin")]
    return sum(part.stat().st_size for part in parts if part.is_file()) / 1e6


def measured(row: Row, texts: list[str], timed: list[str], rounds: int, cores: list[int]) -> tuple[Any, dict[str, list[float]]]:
    """Embeddings of `texts`, and seconds for `timed` by the size of a batch, in each round."""
    with tempfile.TemporaryDirectory() as folder:
        job, out = Path(folder) / "job.json", Path(folder) / "out.json"
        dimension = json.loads((row.folder / "export.json").read_text())["dimension"] if row.file else 0
        asked = {"way": row.way, "folder": str(row.folder), "file": row.file, "dimension": dimension, "threads": len(cores)}
        asked |= {"texts": texts, "timed": timed, "rounds": rounds, "batches": BATCHES, "out": str(out)}
        job.write_text(json.dumps(asked), encoding="utf-8")
        environment = os.environ | {"OMP_NUM_THREADS": str(len(cores)), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, str(HERE / "export_ways.py"), str(job)]
        if row.way == "node":
            (Path(folder) / "node_modules").symlink_to((RUNTIMES / row.packages / "node_modules").absolute())
            shutil.copy(HERE / "export_ways.mjs", folder)
            command = ["node", str(Path(folder) / "export_ways.mjs"), str(job)]
        elif row.packages:
            environment["PYTHONPATH"] = str((RUNTIMES / row.packages).absolute())
        subprocess.run(command, env=environment, check=True, preexec_fn=_on(cores), stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text(encoding="utf-8"))
    return np.array(found["vectors"], dtype=np.float32), found["seconds"]


def _on(cores: list[int]) -> Callable[[], None] | None:
    return (lambda: os.sched_setaffinity(0, cores)) if hasattr(os, "sched_setaffinity") else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="finished run")
    parser.add_argument("--exports", type=Path, default=Path("runs/exports"), help="folder for what is exported")
    parser.add_argument("--queries", type=int, default=100, help="held-out pairs per language")
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--sentences", type=int, default=300, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--programs", nargs="*", help="only these programs")
    parser.add_argument("--precisions", nargs="*", help="only these: fp32, fp16, int8, static, 'static, trimmed'")
    parser.add_argument("--out", type=Path, default=RESULTS / "exports.json")
    options = parser.parse_args()
    chosen = options.precisions or [*PRECISIONS, *STATIC]
    settings = ExportSettings(
        precisions=tuple(one for one in PRECISIONS if one in chosen) or PRECISIONS,
        max_queries=options.queries,
        max_candidates=options.candidates,
        min_cosine=0.0,
        max_loss=100.0,
    )
    source = ExportSource(options.run, settings)
    assert source.run is not None, "named a finished run"
    onnx, openvino = (Export.of(source, target, options.exports / target, settings) for target in ("onnx", "openvino"))
    static = {}
    for name, trim in ((name, trim) for name, trim in STATIC.items() if name in chosen):
        how = settings.model_copy(update={"static_trim": trim})
        static[name] = Export.of(source, "static", options.exports / f"static-{trim}", how)
    comparison = Comparison(source)
    random = np.random.default_rng(SEED)
    held_out = [text for language in source.evaluator.languages for text in source.evaluator.targets[language]]
    timed = [held_out[place] for place in random.choice(len(held_out), min(options.sentences, len(held_out)), replace=False)]
    cores = list(range(min(options.cores, os.cpu_count() or 1)))
    written = provenance(SEED) | {
        "sentences": len(timed),
        "characters": round(float(np.mean([len(text) for text in timed])), 1),
        "measured_on": len(comparison.texts),
        "languages": len(source.evaluator.languages),
        "measured_by": comparison.measured_by,
        "original": round(100 * float(np.mean(list(comparison.original.values()))), 2),
        "cores": len(cores),
        "rounds": options.rounds,
        "rows": [],
        "left_out": [],
    }
    for row in rows(source.run.model, onnx, openvino, static):
        if row.program not in (options.programs or [row.program]) or row.precision not in (
            options.precisions or [row.precision]
        ):
            continue
        if not available(row):
            written["left_out"].append(f"{row.program} {row.precision}")
            continue
        vectors, seconds = measured(row, comparison.texts, timed, options.rounds, cores)
        found = comparison.compare(row.precision, row.folder, megabytes(row), vectors)
        written["rows"].append(
            {
                "program": row.program,
                "precision": row.precision,
                "file": row.file,
                "megabytes": round(found.megabytes, 1),
                "cosine": round(found.cosine, 5),
                "lowest_cosine": found.details["lowest_cosine"],
                "accuracy": round(100 * found.accuracy, 2),
                "sentences_per_second": {size: round(len(timed) / median(times), 1) for size, times in seconds.items()},
                "seconds": {size: [round(one, 3) for one in times] for size, times in seconds.items()},
            }
        )
        print(json.dumps(written["rows"][-1]), flush=True)
        options.out.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""int8 with fixed scales of activations (static quantization) beside scales that are computed as values come.

    python benchmarks/static_int8.py --run runs/quickstart

Weights are the same in all variants: whole numbers with one scale per column, the token table with one per row, as `isogloss
export` writes them. What products read is quantized by onnxruntime's `quantize_static`, with ranges from the run's training
sentences, for each of:

    calibration   min-max, percentile (99.99), entropy
    inputs        only what products read is quantized (QDQ form, which onnxruntime fuses)
    both          the results of products are quantized too (QDQ, its default)
    QOperator     the same as operators of their own (QLinearMatMul)
    outliers      the few channels with very large values are multiplied in single precision, as the export does it

Each variant is compared with the model (cosine, accuracy on held-out pairs of the run) and timed on one thread, in turn with
the others; of the rounds, the one with the fewest CPU seconds counts. Goes to benchmarks/results/static_int8.json; the log has
the conclusion.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from provenance import provenance

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import export
from isogloss.exporting.onnx import graph_files, megabytes
from isogloss.exporting.onnx_calibration import channel_maxima
from isogloss.exporting.onnx_graph import load_graph, save_graph
from isogloss.exporting.onnx_precision import SMALL, Graph, by_row, outliers, product_weight
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.storage import remove, write_json
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results") / "static_int8.json"
SEED, PERCENTILE = 17, 99.99
HISTOGRAM_TOKENS = 24
METHODS = {
    "min-max": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to quantize activations with fixed scales."""

    method: str
    results: bool = False  # whether what products give is quantized too
    operators: bool = False  # QOperator form instead of QDQ
    outliers: bool = False  # whether outlying channels are multiplied in single precision

    @property
    def name(self) -> str:
        """What the variant is called in the result."""
        what = "QOperator" if self.operators else "both" if self.results else "inputs"
        return f"{self.method}, {what}" + (", outliers" if self.outliers else "")


VARIANTS = (
    *(Variant(method) for method in METHODS),
    *(Variant(method, outliers=True) for method in METHODS),
    Variant("min-max", results=True),
    Variant("min-max", results=True, outliers=True),
    Variant("percentile", results=True, outliers=True),
    Variant("min-max", results=True, operators=True, outliers=True),
)


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Sentences one by one, so that no padding is seen.

    With `length`, each is repeated or cut to so many tokens: histograms are made of arrays of one shape.
    """

    def __init__(self, encoder: OnnxEncoder, texts: Sequence[str], length: int = 0) -> None:
        self._fields = self._read(encoder, texts, length)

    @staticmethod
    def _read(encoder: OnnxEncoder, texts: Sequence[str], length: int) -> Iterator[dict[str, Any]]:
        for row in encoder.token_ids(list(texts)):
            if length:
                row = [row[0], *islice(cycle(row[1:-1] or row), length - 2), row[-1]]
            ids = np.array([row], dtype=np.int64)
            yield {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def get_next(self) -> dict[str, Any] | None:
        """The next sentence; None after the last."""
        return next(self._fields, None)


def prepare(proto: Any, maxima: dict[str, FloatArray]) -> list[str]:  # noqa: ANN401 - an onnx.ModelProto
    """Store the table by row and split outlying channels off, in place; the names of the products that are left to quantize."""
    known = {name: channels for name, values in maxima.items() if len(channels := outliers(values))}
    products: list[str] = []
    split: set[str] = set()

    def replace(graph: Graph, node: Any) -> bool:  # noqa: ANN401 - an onnx.NodeProto
        if node.op_type == "Gather":
            return _by_row(graph, node)
        weight = product_weight(graph, node)
        if weight is None or node.op_type != "MatMul":
            return False
        source, name, output = node.input[0], node.input[1], node.output[0]
        channels = known.get(source)
        if channels is None:
            products.append(f"{output}_MatMul")
            graph.add("MatMul", [source, name], [output])
            return True
        usual = np.ones(len(weight), dtype=np.float32)
        usual[channels] = 0
        if source not in split:
            split.add(source)
            graph.add("Gather", [source, graph.add_weight(f"{source}_channels", channels)], [f"{source}_outliers"], axis=-1)
            graph.add("Mul", [source, graph.add_weight(f"{source}_usual", usual)], [f"{source}_without"])
        others = graph.add_weight(f"{name}_without", weight * usual[:, None])
        products.append(f"{output}_most_MatMul")
        graph.add("MatMul", [f"{source}_without", others], [f"{output}_most"])
        graph.add("MatMul", [f"{source}_outliers", graph.add_weight(f"{name}_exact", weight[channels])], [f"{output}_exact"])
        graph.add("Add", [f"{output}_most", f"{output}_exact"], [output])
        return True

    Graph(proto).rewrite(replace)
    return products


def _by_row(graph: Graph, node: Any) -> bool:  # noqa: ANN401 - an onnx.NodeProto
    table = graph.weight(node.input[0])
    if table is None or table.ndim != 2 or table.size < SMALL or graph.attributes(node).get("axis"):
        return False
    rows, scales = by_row(table)
    name, output, ids = node.input[0], node.output[0], node.input[1]
    whole = graph.add("Gather", [graph.add_weight(f"{name}_int8", rows), ids], [f"{output}_row"], axis=0)
    scale = graph.add("Gather", [graph.add_weight(f"{name}_scale", scales), ids], [f"{output}_row_scale"], axis=0)
    graph.add("Mul", [graph.add("Cast", [whole], [f"{output}_float"], to=graph.onnx.TensorProto.FLOAT), scale], [output])
    return True


def write_static(variant: Variant, original: Path, path: Path, texts: Sequence[str]) -> None:
    """Write a variant beside the fp32 graph `original`."""
    proto, probe = load_graph(original), path.with_name(f"probe-{path.name}")
    maxima = channel_maxima(original, texts) if variant.outliers else {}
    products = prepare(proto, maxima)
    save_graph(proto, probe)
    options: dict[str, Any] = {"WeightSymmetric": True, "MatMulConstBOnly": True, "CalibPercentile": PERCENTILE}
    if not variant.results:
        options["OpTypesToExcludeOutputQuantization"] = ["MatMul"]
    quantize_static(
        str(probe),
        str(path),
        Reader(OnnxEncoder(original, 1), texts, 0 if variant.method == "min-max" else HISTOGRAM_TOKENS),
        quant_format=QuantFormat.QOperator if variant.operators else QuantFormat.QDQ,
        op_types_to_quantize=["MatMul"],
        nodes_to_quantize=products,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=METHODS[variant.method],
        extra_options=options,
    )
    for file in graph_files(probe):
        remove(file)


def timed(paths: dict[str, Path], texts: list[str], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each graph in each round, one after the other on one thread; there is a warm-up before the first."""
    encoders = {name: OnnxEncoder(path, 1) for name, path in paths.items()}
    seconds: dict[str, list[float]] = {name: [] for name in paths}
    for turn in range(rounds + 1):
        for name, encoder in encoders.items():
            began = time.thread_time()  # other work on the machine counts less in it than in the time on the clock
            encoder.encode(texts)
            if turn:
                seconds[name].append(time.thread_time() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="runs/quickstart")
    parser.add_argument("--queries", type=int, default=100, help="held-out pairs per language")
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--calibration", type=int, default=128, help="training sentences")
    parser.add_argument("--sentences", type=int, default=512, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of what is not timed")
    parser.add_argument("--only", nargs="*", help="only the variants with these numbers, from 0")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    limits = {"max_queries": options.queries, "max_candidates": options.candidates, "min_cosine": 0.0, "max_loss": 100.0}
    settings = ExportSettings(precisions=("fp32", "int8"), calibration=options.calibration, **limits)
    with tempfile.TemporaryDirectory() as place:
        exported = export(options.run, "onnx", Path(place) / "onnx", settings=settings)
        paths = {("dynamic" if one.name == "int8" else one.name): one.path for one in exported.artifacts}
        source = ExportSource(options.run, settings)
        comparison, texts = Comparison(source), source.calibration_texts
        for number, variant in enumerate(VARIANTS):
            if options.only is None or str(number) in options.only:
                path = paths["fp32"].with_name(f"model_static_{number}.onnx")
                write_static(variant, paths["fp32"], path, texts)
                paths[variant.name] = path
                print(f"written: {variant.name}", flush=True)
        rows = {}
        for name, path in paths.items():
            found = comparison.measure(name, path, megabytes(path), OnnxEncoder(path, options.threads))
            rows[name] = {
                "megabytes": round(found.megabytes, 1),
                "cosine": round(found.cosine, 5),
                "lowest_cosine": found.details["lowest_cosine"],
                "accuracy": round(100 * found.accuracy, 2),
                "lost": round(found.lost, 2),
            }
            print(name, json.dumps(rows[name]), flush=True)
        drawn = np.random.default_rng(SEED).choice(len(comparison.texts), min(options.sentences, len(comparison.texts)), False)
        seconds = timed(paths, [comparison.texts[place] for place in drawn], options.rounds)
    dynamic = min(seconds["dynamic"])
    for name, row in rows.items():
        row["sentences_per_second"] = round(len(drawn) / min(seconds[name]), 1)
        row["times_dynamic"] = round(dynamic / min(seconds[name]), 3)
        row["seconds"] = [round(one, 3) for one in seconds[name]]
        print(f"{name:<32} {row['times_dynamic']:.2f} × dynamic, {row['lost']:.2f} points lost", flush=True)
    facts = {
        "model": Path(options.run).name,
        "measured_on": len(comparison.texts),
        "measured_by": comparison.measured_by,
        "calibration": len(texts),
        "sentences": len(drawn),
        "rounds": options.rounds,
        "threads": 1,
    }
    write_json(options.out, provenance(SEED) | facts | {"variants": rows})


if __name__ == "__main__":
    main()

"""ONNX files of a model in a folder that `SentenceTransformer(folder, backend="onnx")` loads.

    onnx/model.onnx                      fp32
    onnx/model_fp16.onnx                 weights in half precision
    onnx/model_qint8_avx512_vnni.onnx    int8, for x86 CPUs with VNNI instructions and for ARM
    onnx/model_qint8_avx2.onnx           instead, with `cpu = "avx2"`: 7 bits, for every x86 CPU (see `onnx_precision`)
    onnx/….onnx_data                     weights of a graph that has more than 2 GiB of them
    tokenizer.json, modules.json, …      as in a saved model, without model.safetensors

All have pooling, bridge and normalization inside. The folder is opened by `onnx:FOLDER` too (`models/encoders/onnx.py`).
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import Artifact, Exported
from isogloss.exporting.graph_folder import write_graph_folder
from isogloss.exporting.onnx_calibration import channel_maxima
from isogloss.exporting.onnx_graph import load_graph, save_graph, weights_file, write_graph
from isogloss.exporting.onnx_precision import has_products, to_fp16, to_int8
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.progress import Step
from isogloss.storage import remove

Conversion = Callable[[Any], None]

FILES = {"fp32": "model.onnx", "fp16": "model_fp16.onnx"}
PACKAGES = ("onnx", "onnxruntime", "torch", "transformers", "sentence-transformers")


def write(source: ExportSource, folder: Path) -> Exported:
    """Write the precisions that the settings name, measured; those that differ too much are left out."""
    return write_graph_folder(source, folder, "onnx", PACKAGES, write_precisions)


def write_precisions(source: ExportSource, folder: Path) -> tuple[list[Artifact], dict[str, str]]:
    """The graphs that are close enough, and why others were refused."""
    comparison, wanted = Comparison(source), source.settings.precisions
    original = folder / "onnx" / FILES["fp32"]
    source.on_progress(Step("exporting the graph", 0, 1))
    write_graph(source.student, original)
    source.on_progress(Step("exporting the graph", 1, 1))
    artifacts: list[Artifact] = []
    refused: dict[str, str] = {}
    for precision in wanted:
        path = original.with_name(file_name(source, precision))
        if precision != "fp32":
            conversion = to_fp16 if precision == "fp16" else int8_conversion(source, original)
            source.on_progress(Step(f"converting to {precision}", 0, 1))
            convert(original, path, conversion)
            source.on_progress(Step(f"converting to {precision}", 1, 1))
        artifact = comparison.measure(precision, path, megabytes(path), OnnxEncoder(path))
        if reason := comparison.refusal(artifact):
            refused[precision] = reason
        else:
            artifacts.append(artifact)
    kept = {file for artifact in artifacts for file in graph_files(artifact.path)}
    for file in {*original.parent.iterdir()} - kept:
        remove(file)
    return artifacts, refused


def file_name(source: ExportSource, precision: str) -> str:
    """The file of a precision, named as sentence-transformers does it."""
    return f"model_qint8_{source.settings.cpu}.onnx" if precision == "int8" else FILES[precision]


def int8_conversion(source: ExportSource, original: Path) -> Conversion:
    """The conversion for the CPU that the settings name, calibrated on the run's own text."""
    texts = source.calibration_texts
    maxima = channel_maxima(original, texts, source.on_progress) if texts and has_products(load_graph(original)) else {}
    return partial(to_int8, reduced=source.settings.cpu == "avx2", maxima=maxima)


def convert(original: Path, path: Path, conversion: Conversion) -> None:
    """Write another precision of a graph."""
    proto = load_graph(original)
    conversion(proto)
    save_graph(proto, path)


def graph_files(path: Path) -> list[Path]:
    """A graph and its weights, if they are in a file of their own."""
    return [path, weights_file(path)]


def megabytes(path: Path) -> float:
    """Size of a graph with its weights."""
    return sum(file.stat().st_size for file in graph_files(path) if file.is_file()) / 1e6

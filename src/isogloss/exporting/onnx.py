"""ONNX files of a model in a folder that `SentenceTransformer(folder, backend="onnx")` loads.

    onnx/model.onnx                      fp32
    onnx/model_fp16.onnx                 weights in half precision
    onnx/model_qint8_avx512_vnni.onnx    int8, for x86 CPUs with VNNI instructions and for ARM
    onnx/model_qint8_avx2.onnx           instead, with `cpu = "avx2"`: 7 bits, for every x86 CPU (see `onnx_precision`)
    tokenizer.json, modules.json, …      as in a saved model, without model.safetensors

All have pooling, bridge and normalization inside. The folder is opened by `onnx:FOLDER` too (`models/encoders/onnx.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from isogloss.errors import ModelError
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import Artefact, Exported
from isogloss.exporting.onnx_calibration import channel_maxima
from isogloss.exporting.onnx_graph import load_graph, save_graph, write_graph
from isogloss.exporting.onnx_precision import has_products, to_fp16, to_int8
from isogloss.exporting.output import export_folder, finish, show_backend
from isogloss.exporting.portable_tokenizer import make_portable
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.storage import remove

Conversion = Callable[[Any], None]

FILES = {"fp32": "model.onnx", "fp16": "model_fp16.onnx"}
PACKAGES = ("onnx", "onnxruntime", "torch", "transformers", "sentence-transformers")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def write(source: ExportSource, folder: Path) -> Exported:
    """Write the precisions that the settings name, measured; those that differ too much are left out."""
    with export_folder(folder) as temporary:
        write_model_files(source.student, temporary)
        artefacts, refused = write_precisions(source, temporary)
        if not artefacts:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            raise ModelError(f"{source.name}: no file is close enough to the original ({reasons})", hint=HINT)
        show_backend(temporary, "onnx", [artefact.path for artefact in artefacts])
        finish(temporary, source, "onnx", artefacts, refused, PACKAGES)
    found = (replace(one, path=folder / one.path.relative_to(temporary)) for one in artefacts)
    return Exported(folder, tuple(found), refused)


HINT = "allow more with --min-cosine and --max-loss, or name other --precisions; nothing was written"


def write_model_files(student: Student, folder: Path, card: str = "") -> None:
    """Tokenizer, modules and their settings as in a saved model, without the weights of the first module."""
    saved = folder / "saved"
    student.save_pretrained(saved, card)
    for file in saved.iterdir():
        if file.name not in (*WEIGHTS, "SHA256SUMS"):
            file.rename(folder / file.name)
    remove(saved)
    if not (folder / "tokenizer.json").is_file():  # BiLSTMs have it in the folder of a module
        student.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    for tokenizer in folder.rglob("tokenizer.json"):
        make_portable(tokenizer)


def write_precisions(source: ExportSource, folder: Path) -> tuple[list[Artefact], dict[str, str]]:
    """The graphs that are close enough, and why others were refused."""
    comparison, wanted = Comparison(source), source.settings.precisions
    original = folder / "onnx" / FILES["fp32"]
    source.on_progress(Step("exporting the graph", 0, 1))
    write_graph(source.student, original)
    source.on_progress(Step("exporting the graph", 1, 1))
    artefacts: list[Artefact] = []
    refused: dict[str, str] = {}
    for precision in wanted:
        path = original.with_name(file_name(source, precision))
        if precision != "fp32":
            conversion = to_fp16 if precision == "fp16" else int8_conversion(source, original)
            source.on_progress(Step(f"converting to {precision}", 0, 1))
            convert(original, path, conversion)
            source.on_progress(Step(f"converting to {precision}", 1, 1))
        artefact = comparison.measure(precision, path, megabytes(path), OnnxEncoder(path))
        if reason := comparison.refusal(artefact):
            refused[precision] = reason
        else:
            artefacts.append(artefact)
    kept = {file for artefact in artefacts for file in graph_files(artefact.path)}
    for file in {*original.parent.iterdir()} - kept:
        remove(file)
    return artefacts, refused


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
    return [path, path.with_name(f"{path.name}_data")]


def megabytes(path: Path) -> float:
    """Size of a graph with its weights."""
    return sum(file.stat().st_size for file in graph_files(path) if file.is_file()) / 1e6

"""OpenVINO files of a model in a folder that `SentenceTransformer(folder, backend="openvino")` loads.

    openvino/openvino_model.xml, .bin          fp32
    openvino/openvino_model_fp16.xml, .bin     weights in half precision
    openvino/openvino_model_qint8.xml, .bin    weights as int8: one scale per row of a table, and per output of a product
    tokenizer.json, modules.json, …            as in a saved model, without model.safetensors

The graph is that of the ONNX export: pooling, bridge and normalization are inside, and `sentence_embedding` is the second
output. OpenVINO quantizes the inputs of products with int8 weights as they come. The folder is opened by `openvino:FOLDER` too
(`models/encoders/openvino.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.errors import ModelError, optional_package
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import Artifact, Exported
from isogloss.exporting.graph_folder import write_graph_folder
from isogloss.exporting.onnx_graph import write_graph
from isogloss.exporting.onnx_precision import LEVELS, SMALL
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.openvino import MISSING, OpenVinoEncoder
from isogloss.progress import Step
from isogloss.storage import remove
from isogloss.types import FloatArray

FILES = {"fp32": "openvino_model.xml", "fp16": "openvino_model_fp16.xml", "int8": "openvino_model_qint8.xml"}
PACKAGES = ("openvino", "onnx", "torch", "transformers", "sentence-transformers")


def write(source: ExportSource, folder: Path) -> Exported:
    """Write the precisions that the settings name, measured; those that differ too much are left out."""
    optional_package("openvino", MISSING)
    if any(type(module).__name__ == "LSTM" for module in source.student.model):
        message = f"{source.name}: OpenVINO computes an LSTM over the padding of a batch, so its embeddings would be wrong"
        raise ModelError(message, hint="export it with --to onnx")
    return write_graph_folder(source, folder, "openvino", PACKAGES, write_precisions)


def write_precisions(source: ExportSource, folder: Path) -> tuple[list[Artifact], dict[str, str]]:
    """The graphs that are close enough, and why others were refused."""
    comparison, graphs, graph = Comparison(source), folder / "openvino", folder / "graph" / "model.onnx"
    source.on_progress(Step("exporting the graph", 0, 1))
    write_graph(source.student, graph)
    source.on_progress(Step("exporting the graph", 1, 1))
    graphs.mkdir()
    artifacts, refused = list[Artifact](), dict[str, str]()
    for precision in source.settings.precisions:
        path = graphs / FILES[precision]
        source.on_progress(Step(f"converting to {precision}", 0, 1))
        convert(graph, path, precision)
        source.on_progress(Step(f"converting to {precision}", 1, 1))
        megabytes = sum(file.stat().st_size for file in parts(path)) / 1e6
        artifact = comparison.measure(precision, path, megabytes, OpenVinoEncoder(path))
        if reason := comparison.refusal(artifact):
            refused[precision] = reason
            for file in parts(path):
                remove(file)
        else:
            artifacts.append(artifact)
    remove(graph.parent)
    return artifacts, refused


def convert(graph: Path, path: Path, precision: str) -> None:
    """Write an ONNX graph for OpenVINO."""
    import openvino

    model = openvino.Core().read_model(str(graph))
    if precision == "int8":
        compress(model)
    openvino.save_model(model, str(path), compress_to_fp16=precision == "fp16")


def parts(path: Path) -> list[Path]:
    """A graph and its weights."""
    return [path, path.with_suffix(".bin")]


def compress(model: Any) -> None:  # noqa: ANN401 - an openvino.Model
    """Store tables and the weights of products as int8, in place: W ≈ s_j · Q_j, with one scale s_j per row or output j."""
    import openvino
    from openvino import opset13

    weight_of: dict[str, Callable[[Any], tuple[int, int]]] = {  # which input the weight is, and the axis without a scale
        "Gather": lambda node: (0, 1),
        "MatMul": lambda node: (1, 1 if node.get_attributes()["transpose_b"] else 0),
    }
    for node in model.get_ordered_ops():
        if node.get_type_name() not in weight_of:
            continue
        place, axis = weight_of[node.get_type_name()](node)
        weight = node.input_value(place).get_node()
        if weight.get_type_name() != "Constant" or weight.get_element_type() != openvino.Type.f32:
            continue
        values: FloatArray = weight.get_data()
        if values.ndim != 2 or values.size < SMALL:
            continue
        scale = np.maximum(np.abs(values).max(axis, keepdims=True) / LEVELS, np.finfo(np.float32).tiny).astype(np.float32)
        whole = opset13.constant(np.rint(values / scale).astype(np.int8))
        product = opset13.multiply(opset13.convert(whole, "f32"), opset13.constant(scale))
        node.input(place).replace_source_output(product.output(0))

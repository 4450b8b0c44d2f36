"""The largest value in each channel of what the products of a graph read, over some sentences.

One or two channels of a transformer's layer have values ten times those of the others. `onnx_precision.to_int8` treats them
apart.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.exporting.onnx_graph import load_graph, save_graph
from isogloss.exporting.onnx_precision import Graph, product_weight
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import remove
from isogloss.types import FloatArray

LARGEST = "_largest"
BATCH = 16  # sentences


def channel_maxima(path: Path, texts: Sequence[str], on_progress: OnProgress = silent) -> dict[str, FloatArray]:
    """For each input of a product with a weight: the largest absolute value in each channel, over tokens of `texts`.

    `path` is a graph beside its tokenizer, as `OnnxEncoder` opens it; a copy of it is run that has these values as outputs.
    """
    proto = load_graph(path)
    names = _observe(proto)
    probe = path.with_name(f"calibration-{path.name}")
    try:
        save_graph(proto, probe)
        encoder = OnnxEncoder(probe)
        rows = sorted(encoder.token_ids(list(texts)), key=len)
        found: dict[str, FloatArray] = {}
        for start in range(0, len(rows), BATCH):
            for name, values in zip(names, encoder.run(rows[start : start + BATCH], [n + LARGEST for n in names]), strict=True):
                found[name] = np.maximum(found[name], values) if name in found else np.asarray(values)
            on_progress(Step("calibration", min(start + BATCH, len(rows)), len(rows), "sentences"))
        return found
    finally:
        for file in path.parent.glob(f"{probe.name}*"):
            remove(file)


def _observe(proto: Any) -> list[str]:  # noqa: ANN401 - an onnx.ModelProto
    """Add outputs to a graph: the largest absolute value in each channel of what its products read."""
    graph = Graph(proto)
    helper = graph.onnx.helper
    read = (node.input[0] for node in proto.graph.node if product_weight(graph, node) is not None)
    names = list(dict.fromkeys(read))
    for name in names:
        size, flat = f"{name}_size", f"{name}_flat"
        proto.graph.node.extend(
            [
                helper.make_node("Abs", [name], [size]),
                helper.make_node("Flatten", [size], [flat], axis=-1),
                helper.make_node("ReduceMax", [flat, "first_axis"], [name + LARGEST], keepdims=0),
            ]
        )
        proto.graph.output.append(helper.make_tensor_value_info(name + LARGEST, graph.onnx.TensorProto.FLOAT, None))
    proto.graph.initializer.append(graph.onnx.numpy_helper.from_array(np.array([0], dtype=np.int64), "first_axis"))
    return names

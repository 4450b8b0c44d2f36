"""Smaller copies of an ONNX graph: fp16 weights, or int8 weights and products.

    fp16   weights are stored in half precision and converted as they are used; all sums are in single precision
    int8   a product with a weight is computed in whole numbers, X·W ≈ s_x s_w,j · (Q_x − z_x)·Q_w, with one scale s_w,j for each
           column j of the weight, and s_x and z_x from the values of X as it comes (dynamic quantization)
           a table has one scale per row, and only the rows that a sentence needs are converted

Only standard operators are used, so any runtime for ONNX loads the files; onnxruntime fuses them as it loads one. Attention
between tokens, normalization and sums stay in single precision.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isogloss.types import FloatArray

SMALL = 4096  # values: weights with fewer stay as they are
HALF_LARGEST = 65504.0
LEVELS = 127
REDUCED_LEVELS = 63  # for CPUs that add two products in 16 bits: 2 · 255 · 63 < 2¹⁵


class Graph:
    """An ONNX model whose nodes are replaced one by one."""

    def __init__(self, proto: Any) -> None:  # noqa: ANN401 - an onnx.ModelProto
        import onnx

        self.onnx, self.proto = onnx, proto
        self.weights = {one.name: one for one in proto.graph.initializer}
        self.nodes: list[Any] = []
        self._added: dict[str, NDArray[Any]] = {}
        self._names: set[str] = {name for node in proto.graph.node for name in (*node.input, *node.output)} | {*self.weights}

    def weight(self, name: str) -> FloatArray | None:
        """The values of a weight in single precision; None if `name` is something else."""
        tensor = self.weights.get(name)
        if tensor is None or tensor.data_type != self.onnx.TensorProto.FLOAT:
            return None
        return np.asarray(self.onnx.numpy_helper.to_array(tensor))

    def add_weight(self, name: str, values: NDArray[Any]) -> str:
        """Add a weight, once for each name."""
        if name not in self._added:
            self._added[name] = values
        return name

    def add(self, kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:  # noqa: ANN401
        """Add a node, and give the name of its first output."""
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, name=f"{outputs[0]}_{kind}", **attributes))
        return outputs[0]

    def rewrite(self, replace: Callable[["Graph", Any], bool]) -> None:
        """Pass all nodes to `replace`, which adds others instead and returns True, or returns False to keep one."""
        self.nodes = []
        for node in self.proto.graph.node:
            if not replace(self, node):
                self.nodes.append(node)
        used = {name for node in self.nodes for name in node.input} | {one.name for one in self.proto.graph.output}
        kept = [one for one in self.proto.graph.initializer if one.name in used]
        new = [self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in self._added.items()]
        graph = self.proto.graph
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend([*kept, *new])


def to_fp16(proto: Any) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Store weights in half precision, in place."""

    def replace(graph: Graph, node: Any) -> bool:  # noqa: ANN401 - an onnx.NodeProto
        inputs, changed = list(node.input), False
        for place, name in enumerate(inputs):
            values = graph.weight(name)
            if values is None or values.size < SMALL or np.abs(values).max(initial=0) > HALF_LARGEST:
                continue
            half = graph.add_weight(f"{name}_fp16", values.astype(np.float16))
            if node.op_type == "Gather" and place == 0:  # convert the rows that are read, not the table
                rows = graph.add("Gather", [half, *inputs[1:]], [f"{node.output[0]}_fp16"], **_attributes(graph, node))
                graph.add("Cast", [rows], [node.output[0]], to=graph.onnx.TensorProto.FLOAT)
                return True
            inputs[place], changed = f"{name}_as_fp32", True
            if not any(inputs[place] in one.output for one in graph.nodes):
                graph.add("Cast", [half], [inputs[place]], to=graph.onnx.TensorProto.FLOAT)
        if changed:
            graph.add(node.op_type, inputs, list(node.output), **_attributes(graph, node))
        return changed

    Graph(proto).rewrite(replace)


def to_int8(proto: Any, reduced: bool = False) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Compute products with weights in whole numbers and store tables as such, in place.

    `reduced` uses 7 of 8 bits, for x86 CPUs without VNNI instructions.
    """
    levels = REDUCED_LEVELS if reduced else LEVELS
    shared: dict[str, tuple[str, str, str]] = {}  # activations that were quantized: several products read the same

    def quantized(graph: Graph, name: str) -> tuple[str, str, str]:
        if name not in shared:
            shared[name] = (f"{name}_int8", f"{name}_scale", f"{name}_zero")
            graph.add("DynamicQuantizeLinear", [name], list(shared[name]))
        return shared[name]

    def product(graph: Graph, node: Any, weight: FloatArray, bias: str = "") -> bool:  # noqa: ANN401
        rows, scales = by_column(weight, levels)
        name, output = node.input[1], node.output[0]
        whole, scale, zero = quantized(graph, node.input[0])
        inputs = [whole, graph.add_weight(f"{name}_int8", rows), zero, graph.add_weight("int8_zero", np.int8(0))]
        sums = graph.add("MatMulInteger", inputs, [f"{output}_sums"])
        both = graph.add("Mul", [scale, graph.add_weight(f"{name}_scale", scales)], [f"{output}_scale"])
        numbers = graph.add("Cast", [sums], [f"{output}_float"], to=graph.onnx.TensorProto.FLOAT)
        scaled = graph.add("Mul", [numbers, both], [f"{output}_scaled" if bias else output])
        if bias:
            graph.add("Add", [scaled, bias], [output])
        return True

    def lookup(graph: Graph, node: Any, table: FloatArray) -> bool:  # noqa: ANN401
        rows, scales = by_row(table)
        name, output, ids = node.input[0], node.output[0], node.input[1]
        whole = graph.add("Gather", [graph.add_weight(f"{name}_int8", rows), ids], [f"{output}_int8"], axis=0)
        scale = graph.add("Gather", [graph.add_weight(f"{name}_scale", scales), ids], [f"{output}_scale"], axis=0)
        numbers = graph.add("Cast", [whole], [f"{output}_float"], to=graph.onnx.TensorProto.FLOAT)
        graph.add("Mul", [numbers, scale], [output])
        return True

    def replace(graph: Graph, node: Any) -> bool:  # noqa: ANN401
        if node.op_type == "Gather":
            table = graph.weight(node.input[0])
            is_table = table is not None and table.ndim == 2 and table.size >= SMALL and not _attributes(graph, node).get("axis")
            return is_table and lookup(graph, node, table)
        if node.op_type not in ("MatMul", "Gemm"):
            return False
        weight = graph.weight(node.input[1])
        if weight is None or weight.ndim != 2 or weight.size < SMALL:
            return False
        if node.op_type == "MatMul":
            return product(graph, node, weight)
        how = _attributes(graph, node)
        if how.get("transA") or how.get("alpha", 1.0) != 1.0 or how.get("beta", 1.0) != 1.0:
            return False
        return product(graph, node, weight.T if how.get("transB") else weight, node.input[2] if len(node.input) > 2 else "")

    Graph(proto).rewrite(replace)


def by_row(table: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Whole numbers from −127 to 127 and one scale per row."""
    scales = np.abs(table).max(axis=1, keepdims=True) / LEVELS
    scales = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)
    return np.rint(table / scales).astype(np.int8), scales


def by_column(weight: FloatArray, levels: int) -> tuple[NDArray[np.int8], FloatArray]:
    """Whole numbers from −`levels` to `levels` and one scale per column."""
    scales = np.abs(weight).max(axis=0) / levels
    scales = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


def _attributes(graph: Graph, node: Any) -> dict[str, Any]:  # noqa: ANN401
    return {one.name: graph.onnx.helper.get_attribute_value(one) for one in node.attribute}

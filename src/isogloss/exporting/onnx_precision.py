"""Smaller copies of an ONNX graph: fp16 weights, or int8 weights and products.

    fp16   weights are stored in half precision and converted as they are used; all sums are in single precision
    int8   a product with a weight is computed in whole numbers, X·W ≈ s_x s_w,j · (Q_x − z_x)·Q_w, with one scale s_w,j for
           each column j of the weight, and s_x and z_x from the values of X as it comes (dynamic quantization)
           a table has one scale per row, and only the rows that a sentence needs are converted

Only standard operators are used, so any runtime for ONNX loads the files; onnxruntime fuses them as it loads one. Attention
between tokens, normalization and sums stay in single precision.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isogloss.types import FloatArray, IntArray

SMALL = 4096  # values: weights with fewer stay as they are
HALF_LARGEST = 65504.0
LEVELS = 127
MOST_OUTLIERS, OUTLYING, FAR = 15, 1.5, 2.5  # outlying: 1.5 times the 16th channel, if the first is 2.5 times as large
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

    def attributes(self, node: Any) -> dict[str, Any]:  # noqa: ANN401 - an onnx.NodeProto
        """The attributes of a node by name."""
        return {one.name: self.onnx.helper.get_attribute_value(one) for one in node.attribute}

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
                rows = graph.add("Gather", [half, *inputs[1:]], [f"{node.output[0]}_fp16"], **graph.attributes(node))
                graph.add("Cast", [rows], [node.output[0]], to=graph.onnx.TensorProto.FLOAT)
                return True
            inputs[place], changed = f"{name}_as_fp32", True
            if not any(inputs[place] in one.output for one in graph.nodes):
                graph.add("Cast", [half], [inputs[place]], to=graph.onnx.TensorProto.FLOAT)
        if changed:
            graph.add(node.op_type, inputs, list(node.output), **graph.attributes(node))
        return changed

    Graph(proto).rewrite(replace)


def to_int8(proto: Any, reduced: bool = False, maxima: Mapping[str, FloatArray] | None = None) -> None:  # noqa: ANN401
    """Compute products with weights in whole numbers and store tables as such, in place.

    `reduced` uses 7 of 8 bits, for x86 CPUs without VNNI instructions. `maxima` are the largest values in each channel of what
    the products read (`onnx_calibration`): the few channels that stand out are multiplied in single precision, because one
    scale for all would leave few steps for the others (as in LLM.int8(), Dettmers et al. 2022).
    """
    _join_biases(proto)
    Graph(proto).rewrite(_Int8(REDUCED_LEVELS if reduced else LEVELS, maxima or {}).replace)


def _join_biases(proto: Any) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """MatMul, then Add of a bias  →  one node MatMul with three inputs, which only `_Int8` knows and replaces."""
    graph = Graph(proto)
    readers = Counter(name for node in proto.graph.node for name in node.input)
    products = {
        node.output[0]: node for node in proto.graph.node if product_weight(graph, node) is not None and len(node.input) < 3
    }

    def replace(graph: Graph, node: Any) -> bool:  # noqa: ANN401
        if node.op_type != "Add":
            return False
        for result, bias in (node.input, reversed(node.input)):
            values = graph.weight(bias)
            if result in products and readers[result] == 1 and values is not None and values.ndim == 1:
                products[result].input.append(bias)
                products[result].output[0] = node.output[0]
                return True
        return False

    graph.rewrite(replace)


class _Int8:
    """Replaces products and tables; what several products read is quantized once."""

    def __init__(self, levels: int, maxima: Mapping[str, FloatArray]) -> None:
        self.levels = levels
        found = {name: outliers(values) for name, values in maxima.items()}
        self.outliers = {name: channels for name, channels in found.items() if len(channels)}
        self.quantized: dict[str, tuple[str, str, str]] = {}

    def replace(self, graph: Graph, node: Any) -> bool:  # noqa: ANN401 - an onnx.NodeProto
        if node.op_type == "Gather":
            table = graph.weight(node.input[0])
            if table is None or table.ndim != 2 or table.size < SMALL or graph.attributes(node).get("axis"):
                return False
            self._lookup(graph, node, table)
            return True
        weight = product_weight(graph, node)
        if weight is None:
            return False
        self._product(graph, node, weight)
        return True

    def _lookup(self, graph: Graph, node: Any, table: FloatArray) -> None:  # noqa: ANN401
        rows, scales = by_row(table)
        name, output, ids = node.input[0], node.output[0], node.input[1]
        whole = graph.add("Gather", [graph.add_weight(f"{name}_int8", rows), ids], [f"{output}_row"], axis=0)
        scale = graph.add("Gather", [graph.add_weight(f"{name}_scale", scales), ids], [f"{output}_row_scale"], axis=0)
        numbers = graph.add("Cast", [whole], [f"{output}_row_float"], to=graph.onnx.TensorProto.FLOAT)
        graph.add("Mul", [numbers, scale], [output])

    def _product(self, graph: Graph, node: Any, weight: FloatArray) -> None:  # noqa: ANN401
        source, name, output = node.input[0], node.input[1], node.output[0]
        channels = self.outliers.get(source)
        rows, scales = by_column(weight if channels is None else _without(weight, channels), self.levels)
        whole, scale, zero = self._activation(graph, source, len(weight))
        inputs = [
            whole,
            graph.add_weight(f"{name}_int8", rows),
            zero,
            graph.add_weight("int8_zero", np.array(0, dtype=np.int8)),
        ]
        sums = graph.add("MatMulInteger", inputs, [f"{output}_sums"])
        both = graph.add("Mul", [scale, graph.add_weight(f"{name}_scale", scales)], [f"{output}_scale"])
        numbers = graph.add("Cast", [sums], [f"{output}_float"], to=graph.onnx.TensorProto.FLOAT)
        bias = node.input[2] if len(node.input) > 2 else ""
        last = graph.add("Mul", [numbers, both], [f"{output}_usual" if bias or channels is not None else output])
        if bias:
            last = graph.add("Add", [last, bias], [f"{output}_biased" if channels is not None else output])
        if channels is not None:
            exact = graph.add_weight(f"{name}_outliers", weight[channels])
            product = graph.add("MatMul", [f"{source}_outliers", exact], [f"{output}_outliers"])
            graph.add("Add", [last, product], [output])

    def _activation(self, graph: Graph, name: str, width: int) -> tuple[str, str, str]:
        """The whole numbers, scale and zero point of what a product reads, with zeros in outlying channels."""
        if name not in self.quantized:
            source, channels = name, self.outliers.get(name)
            if channels is not None:
                graph.add("Gather", [name, graph.add_weight(f"{name}_channels", channels)], [f"{name}_outliers"], axis=-1)
                usual = graph.add_weight(f"{name}_usual", _without(np.ones(width, dtype=np.float32), channels))
                source = graph.add("Mul", [name, usual], [f"{name}_without"])
            self.quantized[name] = (f"{name}_int8", f"{name}_scale", f"{name}_zero")
            graph.add("DynamicQuantizeLinear", [source], list(self.quantized[name]))
        return self.quantized[name]


def _without(values: FloatArray, channels: IntArray) -> FloatArray:
    """A copy with zeros at some indices."""
    copy = values.copy()
    copy[channels] = 0
    return copy


def product_weight(graph: Graph, node: Any) -> FloatArray | None:  # noqa: ANN401 - an onnx.NodeProto
    """The weight of a product with one, as rows × columns; None if the node is something else."""
    how = graph.attributes(node)
    plain = node.op_type == "Gemm" and not how.get("transA") and how.get("alpha", 1.0) == how.get("beta", 1.0) == 1.0
    if node.op_type != "MatMul" and not plain:
        return None
    weight = graph.weight(node.input[1])
    if weight is None or weight.ndim != 2 or weight.size < SMALL:
        return None
    return weight.T if how.get("transB") else weight


def has_products(proto: Any) -> bool:  # noqa: ANN401 - an onnx.ModelProto
    """Whether a graph has products with weights: a static token table without other layers has none."""
    graph = Graph(proto)
    return any(product_weight(graph, node) is not None for node in proto.graph.node)


def outliers(values: FloatArray) -> IntArray:
    """The channels whose largest value is far above that of the others; at most `MOST_OUTLIERS`."""
    if len(values) <= MOST_OUTLIERS:
        return np.empty(0, dtype=np.int64)
    usual = np.sort(values)[-MOST_OUTLIERS - 1]
    return np.flatnonzero(values > OUTLYING * usual) if values.max() > FAR * usual else np.empty(0, dtype=np.int64)


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

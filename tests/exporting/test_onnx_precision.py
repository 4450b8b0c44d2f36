"""Precisions of ONNX graphs: small graphs made here, run by onnxruntime, against numpy's formulas."""

from typing import Any

import numpy as np
import pytest

from isogloss.exporting.onnx_precision import (
    MOST_OUTLIERS,
    REDUCED_LEVELS,
    Graph,
    by_column,
    by_row,
    has_products,
    outliers,
    to_fp16,
    to_int8,
)
from isogloss.types import FloatArray

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

ROWS, WIDTH, WIDER = 300, 64, 96
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32) * RANDOM.uniform(0.1, 3, size=(ROWS, 1)).astype(np.float32)
FIRST = RANDOM.normal(size=(WIDTH, WIDER)).astype(np.float32)
SECOND = RANDOM.normal(size=(WIDTH, WIDER)).astype(np.float32).T.copy()  # transposed: (out, in)
BIAS, OTHER = (RANDOM.normal(size=width).astype(np.float32) for width in (WIDER, WIDER))
SHAPES = {"tokens": ["batch", "tokens", WIDER], "sentences": ["batch", WIDER]}
IDS = RANDOM.integers(0, ROWS, size=(3, 7))


def model(table: FloatArray = TABLE) -> Any:  # noqa: ANN401 - an onnx.ModelProto
    """Token ids → rows of a table → a product with a bias, and a Gemm of the first token of each sentence."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "first"], ["product"]),
        helper.make_node("Add", ["bias", "product"], ["tokens"]),
        helper.make_node("Gather", ["rows", "zero"], ["heads"], axis=1),
        helper.make_node("Gemm", ["heads", "second", "other"], ["sentences"], transB=1),
    ]
    weights = {"table": table, "first": FIRST, "second": SECOND, "bias": BIAS, "other": OTHER, "zero": np.array(0)}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("ids", kinds.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info(name, kinds.FLOAT, shape) for name, shape in SHAPES.items()],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 10
    return made


def run(proto: Any) -> list[FloatArray]:  # noqa: ANN401
    onnx.checker.check_model(proto)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[FloatArray] = session.run(None, {"ids": IDS})
    return found


def dynamically(x: FloatArray) -> FloatArray:
    """Values as ONNX's DynamicQuantizeLinear keeps them."""
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = (high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255)
    values: FloatArray = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale
    return values.astype(np.float32)


def rounded(weight: FloatArray, levels: int, axis: int) -> FloatArray:
    scale = np.abs(weight).max(axis=axis, keepdims=True) / levels
    values: FloatArray = np.rint(weight / scale) * scale
    return values


@pytest.mark.parametrize(("reduced", "levels"), [(False, 127), (True, REDUCED_LEVELS)])
def test_int8_equals_the_formula(reduced: bool, levels: int) -> None:
    proto = model()
    to_int8(proto, reduced)
    rows = rounded(TABLE, 127, 1)[IDS]
    tokens, sentences = run(proto)
    assert np.allclose(tokens, dynamically(rows) @ rounded(FIRST, levels, 0) + BIAS, atol=1e-3)
    assert np.allclose(sentences, dynamically(rows[:, 0]) @ rounded(SECOND, levels, 1).T + OTHER, atol=1e-3)
    kinds = {one.name: one.data_type for one in proto.graph.initializer if np.prod(one.dims) > 1000}
    assert set(kinds.values()) == {onnx.TensorProto.INT8} and len(kinds) == 3


def test_channels_that_stand_out_are_multiplied_exactly() -> None:
    table = TABLE.copy()
    table[:, [5, 17]] *= 200
    expected = run(model(table))
    maxima = {"rows": np.abs(table).max(axis=0), "heads": np.abs(table).max(axis=0)}
    errors = []
    for known in ({}, maxima):
        proto = model(table)
        to_int8(proto, maxima=known)
        found = run(proto)
        own = rounded(table, 127, 1)[IDS] @ FIRST + BIAS  # without the error of the table
        errors.append(np.abs(found[0] - own).max())
        assert all(np.abs(one - other).max() < 0.1 * np.abs(other).max() for one, other in zip(found, expected, strict=True))
    assert errors[1] < 0.1 * errors[0]


def test_which_channels_stand_out() -> None:
    values = np.linspace(1, 2, 100).astype(np.float32)
    assert outliers(values).tolist() == []
    values[[3, 40]] = 30, 4
    assert outliers(values).tolist() == [3, 40]
    values[3] = 2
    assert outliers(values).tolist() == []  # none is far enough above the others
    values[:50] = 100
    assert outliers(values).tolist() == []  # many are alike
    assert len(outliers(np.arange(1000, dtype=np.float32) ** 4)) <= MOST_OUTLIERS
    assert outliers(np.array([1.0, 100.0], dtype=np.float32)).tolist() == []


def test_fp16_stores_half_precision_and_computes_in_single() -> None:
    proto = model()
    before = proto.ByteSize()
    to_fp16(proto)
    half = [weight.astype(np.float16).astype(np.float32) for weight in (TABLE, FIRST, SECOND)]
    tokens, sentences = run(proto)
    rows = half[0][IDS]
    assert np.allclose(tokens, rows @ half[1] + BIAS, atol=1e-4)
    assert np.allclose(sentences, rows[:, 0] @ half[2].T + OTHER, atol=1e-4)
    assert proto.ByteSize() < 0.55 * before


def test_what_half_precision_cannot_hold_stays() -> None:
    proto = model(TABLE * np.float32(1e6))
    to_fp16(proto)
    assert {one.name: one.data_type for one in proto.graph.initializer}["table"] == onnx.TensorProto.FLOAT
    assert np.isfinite(run(proto)[0]).all()


def test_small_weights_and_products_of_activations_stay() -> None:
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("MatMul", ["x", "x"], ["square"]), helper.make_node("MatMul", ["square", "small"], ["y"])]
    shapes = [helper.make_tensor_value_info(name, kinds.FLOAT, [4, 4]) for name in ("x", "y")]
    small = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "small")
    proto = helper.make_model(helper.make_graph(nodes, "small", shapes[:1], shapes[1:], [small]))
    assert not has_products(proto) and has_products(model())
    to_int8(proto)
    assert [node.op_type for node in proto.graph.node] == ["MatMul", "MatMul"]


def test_scales_of_rows_and_columns() -> None:
    whole, scales = by_row(TABLE)
    assert whole.dtype == np.int8 and scales.shape == (ROWS, 1)
    assert np.abs(whole * scales - TABLE).max(axis=1).max() <= np.abs(TABLE).max() / 254 + 1e-6
    assert (np.abs(whole).max(axis=1) == 127).all()
    assert not by_row(np.zeros((2, 3), dtype=np.float32))[0].any()
    whole, scales = by_column(FIRST, 63)
    assert scales.shape == (WIDER,) and (np.abs(whole).max(axis=0) == 63).all()


def test_weights_that_are_shared_are_stored_once() -> None:
    proto = model()
    proto.graph.node.append(onnx.helper.make_node("MatMul", ["rows", "first"], ["again"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("again", onnx.TensorProto.FLOAT, SHAPES["tokens"]))
    to_int8(proto)
    names = [one.name for one in proto.graph.initializer]
    assert len(names) == len(set(names)) and names.count("first_int8") == 1
    assert [node.op_type for node in proto.graph.node].count("DynamicQuantizeLinear") == 2  # of `rows`, and of `heads`
    tokens, _, again = run(proto)
    assert np.allclose(tokens, again + BIAS, atol=1e-4)


def test_weight_finds_only_weights_in_single_precision() -> None:
    graph = Graph(model())
    found = graph.weight("first")
    assert found is not None and np.array_equal(found, FIRST)
    assert graph.weight("zero") is None and graph.weight("ids") is None

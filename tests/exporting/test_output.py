"""What exports write beside graphs: the card's usage example loads what is in the folder."""

import pytest

from isogloss.exporting.output import with_backend
from isogloss.models.hub import UNNAMED


@pytest.mark.parametrize(
    ("backend", "graphs", "arguments"),
    [
        ("onnx", ["onnx/model_fp16.onnx", "onnx/model.onnx"], ', backend="onnx"'),
        ("openvino", ["openvino/openvino_model.xml"], ', backend="openvino"'),
        ("onnx", ["onnx/model_fp16.onnx"], ', backend="onnx", model_kwargs={"file_name": "onnx/model_fp16.onnx"}'),
    ],
)
def test_the_usage_example_loads_a_graph_of_the_folder(backend: str, graphs: list[str], arguments: str) -> None:
    card = f'model = SentenceTransformer("{UNNAMED}")\nother = SentenceTransformer("mine")\n'
    shown = f'model = SentenceTransformer("{UNNAMED}"{arguments})\nother = SentenceTransformer("mine")\n'
    assert with_backend(card, backend, graphs) == shown

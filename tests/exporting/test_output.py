"""What exports write beside graphs: the card's usage example loads what is in the folder."""

from pathlib import Path

import pytest

from isogloss.exporting.output import show_backend
from isogloss.models.hub import UNNAMED


@pytest.mark.parametrize(
    ("backend", "graphs", "arguments"),
    [
        ("onnx", ["onnx/model_fp16.onnx", "onnx/model.onnx"], ', backend="onnx"'),
        ("openvino", ["openvino/openvino_model.xml"], ', backend="openvino"'),
        ("onnx", ["onnx/model_fp16.onnx"], ', backend="onnx", model_kwargs={"file_name": "onnx/model_fp16.onnx"}'),
    ],
)
def test_the_usage_example_loads_a_graph_of_the_folder(tmp_path: Path, backend: str, graphs: list[str], arguments: str) -> None:
    card = tmp_path / "README.md"
    card.write_text(f'model = SentenceTransformer("{UNNAMED}")\nother = SentenceTransformer("mine")\n')
    show_backend(tmp_path, backend, [tmp_path / graph for graph in graphs])
    assert card.read_text() == f'model = SentenceTransformer("{UNNAMED}"{arguments})\nother = SentenceTransformer("mine")\n'

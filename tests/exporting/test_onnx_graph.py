"""Whole models as ONNX graphs, run by onnxruntime, against the models in torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from bodies import WIDTH, sentence_model
from isogloss.errors import ModelError
from isogloss.exporting.onnx_graph import load_graph, write_graph
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from tiny import TEXTS, unigram

pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

MADE: dict[str, Callable[[], Student]] = {
    "BERT, mean, bridge": lambda: Student(sentence_model("BERT", bridge=8, normalize=True), "BERT"),
    "XLM-R, several": lambda: Student(sentence_model("XLM-R", ("cls", "max", "mean_sqrt_len_tokens")), "XLM-R"),  # type: ignore[arg-type]
    "MPNet, last token": lambda: Student(sentence_model("MPNet", "lasttoken"), "MPNet"),
    "windowed, weighted": lambda: Student(sentence_model("windowed", "weightedmean"), "windowed"),
    "static": lambda: static_student(unigram(), 16),
    "BiLSTM": lambda: bilstm_student(
        learn_vocabulary(lambda: [TEXTS], 120, "bpe"), EncoderSizes(embedding=8, hidden=4, layers=2), max_tokens=32
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_graphs_give_the_models_own_embeddings(tmp_path: Path, kind: str) -> None:
    student = MADE[kind]()
    before = student.fingerprint
    path = tmp_path / "model.onnx"
    write_graph(student, path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]
    assert [one.name for one in session.get_outputs()] == ["last_hidden_state", "sentence_embedding"]
    assert [one.shape[:2] for one in session.get_inputs()] == [["batch", "tokens"]] * 2
    for texts in ([*TEXTS[:7], "die Katze schläft " * 30], TEXTS[:1], ["a", TEXTS[3]]):
        fields = {name: value.numpy() for name, value in student.tokenize(texts).padded(np.arange(len(texts))).items()}
        found = session.run(None, {name: fields[name] for name in ("input_ids", "attention_mask")})
        assert found[0].shape[:2] == fields["input_ids"].shape
        assert np.allclose(found[1], student.encode(texts), atol=1e-5)
    assert student.fingerprint == before and {node.domain for node in load_graph(path).graph.node} <= {""}


def test_the_model_is_left_as_it_was_and_onnxruntime_recognizes_its_gelu(tmp_path: Path) -> None:
    student = Student(sentence_model("BERT"), "BERT")
    student.model.train()
    attention, pooler = student.body.config._attn_implementation, student.body.pooler
    write_graph(student, tmp_path / "model.onnx")
    assert student.body.config._attn_implementation == attention and student.body.pooler is pooler and pooler is not None
    assert student.model.training
    text = (tmp_path / "model.onnx").read_bytes()
    assert b"site-packages" not in text and str(Path.home()).encode() not in text
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    runtime.InferenceSession(str(tmp_path / "model.onnx"), options, providers=["CPUExecutionProvider"])
    kinds = {node.op_type for node in load_graph(tmp_path / "optimized.onnx").graph.node}
    assert kinds & {"Gelu", "BiasGelu"} and "Erf" not in kinds


def test_what_has_no_graph_is_refused(tmp_path: Path) -> None:
    class Strange(torch.nn.Module):
        def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return features

    model = sentence_model("BERT")
    model.append(Strange())
    with pytest.raises(ModelError, match="a Strange module cannot be exported to ONNX") as caught:
        write_graph(Student(model, "odd"), tmp_path / "model.onnx")
    assert "Pooling" in caught.value.hint and not (tmp_path / "model.onnx").exists()
    with pytest.raises(ModelError, match="leaves out the tokens of the prompt"):
        write_graph(Student(sentence_model("BERT", include_prompt=False), "odd", prompt="query: "), tmp_path / "model.onnx")


def test_pooling_is_that_of_the_model() -> None:
    modes = Pooling(WIDTH, "mean").POOLING_MODES
    assert set(modes) == {"cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"}  # all are tested here

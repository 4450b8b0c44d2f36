"""ONNX exports: a small graph made here, pooled and normalized as its folder says, against numpy."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from torch import nn

from isogloss.errors import ModelError
from isogloss.models.encoders.onnx import OnnxEncoder, _modules_after_graph, _tokenizer
from isogloss.models.encoders.open import open_encoder
from isogloss.types import FloatArray
from tiny import TEXTS, unigram

WIDTH = 5


@pytest.fixture
def onnx() -> Any:  # noqa: ANN401 - the package, if it is installed
    pytest.importorskip("onnxruntime")
    return pytest.importorskip("onnx")


def export(onnx: Any, folder: Path, modules: tuple[str, ...], mode: str = "mean_tokens") -> FloatArray:  # noqa: ANN401
    """A body that looks tokens up in a table, in the layout of sentence-transformers; the table is given back."""
    tokenizer = unigram()
    tokenizer.save_pretrained(folder)
    table = np.random.default_rng(0).normal(size=(len(tokenizer), WIDTH)).astype(np.float32)
    helper, kinds = onnx.helper, onnx.TensorProto
    shapes = [helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"]) for name in ("input_ids", "attention_mask")]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "body",
        shapes,
        [helper.make_tensor_value_info("last_hidden_state", kinds.FLOAT, ["batch", "tokens", WIDTH])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    (folder / "onnx").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.save(model, str(folder / "onnx/model.onnx"))
    described = [{"idx": n, "name": str(n), "path": f"{n}_{kind}", "type": f"st.{kind}"} for n, kind in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(described))
    config = {"word_embedding_dimension": WIDTH, f"pooling_mode_{mode}": True}
    for module in described:
        (folder / str(module["path"])).mkdir()
        (folder / str(module["path"]) / "config.json").write_text(json.dumps(config))
    return table


@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_those_of_the_folder(onnx: Any, tmp_path: Path, normalize: bool) -> None:  # noqa: ANN401
    modules = ("Transformer", "Pooling", "Normalize") if normalize else ("Transformer", "Pooling")
    table = export(onnx, tmp_path, modules)
    encoder = open_encoder(f"onnx:{tmp_path}")
    texts = [*TEXTS[:40], "", "the " * 200]
    vectors = encoder.encode(texts)
    tokenizer = unigram()
    for text, vector in zip(texts, vectors, strict=True):
        ids = tokenizer(text, truncation=True, max_length=64)["input_ids"]
        wanted = table[ids].mean(axis=0)
        assert np.allclose(vector, wanted / np.linalg.norm(wanted) if normalize else wanted, atol=1e-5)
    assert encoder.dimension == WIDTH and encoder.fingerprint == open_encoder(f"onnx:{tmp_path}").fingerprint


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [("cls_token", lambda rows: rows[0]), ("max_tokens", lambda rows: rows.max(axis=0)), ("lasttoken", lambda rows: rows[-1])],
)
def test_other_pooling_and_a_dense_layer(
    onnx: Any,  # noqa: ANN401
    tmp_path: Path,
    mode: str,
    pooled: Callable[[FloatArray], FloatArray],
) -> None:
    table = export(onnx, tmp_path, ("Transformer", "Pooling", "Dense"), mode)
    dense = Dense(WIDTH, 3, activation_function=nn.Tanh())
    dense.save(str(tmp_path / "2_Dense"))
    weight, bias = dense.linear.weight.detach().numpy(), dense.linear.bias.detach().numpy()
    tokenizer, texts, encoder = unigram(), TEXTS[:20], open_encoder(f"onnx:{tmp_path}")
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        assert np.allclose(vector, np.tanh(weight @ pooled(table[tokenizer(text)["input_ids"]]) + bias), atol=1e-5)
    before = encoder.fingerprint
    Dense(WIDTH, 3).save(str(tmp_path / "2_Dense"))
    assert before != open_encoder(f"onnx:{tmp_path}").fingerprint


def test_token_ids_and_batches_of_them(onnx: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    table = export(onnx, tmp_path, ("Transformer", "Pooling"))
    encoder, tokenizer = OnnxEncoder(tmp_path, threads=1), unigram()
    texts = [*TEXTS[:9], "", "the " * 200]
    rows = encoder.token_ids(texts)
    assert rows == tokenizer(texts, truncation=True, max_length=64)["input_ids"] and encoder.max_tokens == 64
    wanted = np.array([table[row].mean(axis=0) for row in rows])
    assert np.allclose(encoder.encode_ids(rows), wanted, atol=1e-5)
    assert encoder.encode_ids([]).shape == (0, WIDTH)
    sizes: list[tuple[int, int]] = []
    compute = encoder.encode_ids

    def noted(rows: Sequence[Sequence[int]]) -> FloatArray:
        sizes.append((len(rows), max(map(len, rows))))
        return compute(rows)

    monkeypatch.setattr("isogloss.models.encoders.onnx.TOKENS_AT_ONCE", 70)
    monkeypatch.setattr(encoder, "encode_ids", noted)
    assert np.allclose(encoder.encode(texts), wanted, atol=1e-5)
    assert all(count * longest <= 70 for count, longest in sizes) and sum(count for count, _ in sizes) == len({*texts})
    assert [longest for _, longest in sizes] == sorted((longest for _, longest in sizes), reverse=True)


def test_the_default_prompt_comes_first_unless_another_is_given(onnx: Any, tmp_path: Path) -> None:  # noqa: ANN401
    export(onnx, tmp_path, ("Transformer", "Pooling"))
    plain = open_encoder(f"onnx:{tmp_path}")
    before = plain.fingerprint
    prompts = {"prompts": {"isogloss": "die Katze ", "query": ""}, "default_prompt_name": "isogloss"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prompted, other = OnnxEncoder(tmp_path), open_encoder(f"onnx:{tmp_path}", prompt="der Hund ")
    assert np.array_equal(prompted.encode(["rennt"]), plain.encode(["die Katze rennt"]))
    assert np.array_equal(other.encode(["rennt"]), plain.encode(["der Hund rennt"]))
    assert prompted.token_ids(["rennt"]) == unigram()(["die Katze rennt"])["input_ids"]
    assert len({before, prompted.fingerprint, other.fingerprint}) == 3


def test_a_graph_is_found_or_named(onnx: Any, tmp_path: Path) -> None:  # noqa: ANN401
    export(onnx, tmp_path, ("Transformer", "Pooling"))
    graph = tmp_path / "onnx" / "model.onnx"
    small = graph.with_name("model_qint8_avx512_vnni.onnx")
    small.write_bytes(graph.read_bytes())
    assert OnnxEncoder(tmp_path).graph == graph
    assert OnnxEncoder(small).graph == small and OnnxEncoder(small).folder == tmp_path
    graph.rename(graph.with_name("model_fp16.onnx"))
    with pytest.raises(ModelError, match=r"several graphs.*model_fp16.onnx, model_qint8"):
        OnnxEncoder(tmp_path)
    graph.with_name("model_fp16.onnx").unlink()
    assert OnnxEncoder(tmp_path).graph == small
    with pytest.raises(ModelError, match="no ONNX export"):
        OnnxEncoder(graph)


def test_what_cannot_be_computed_is_refused(onnx: Any, tmp_path: Path) -> None:  # noqa: ANN401
    export(onnx, tmp_path / "other", ("Transformer", "Pooling", "LayerNorm"))
    with pytest.raises(ModelError, match="a LayerNorm module comes after the graph"):
        open_encoder(f"onnx:{tmp_path / 'other'}")
    export(onnx, tmp_path / "odd", ("Transformer", "Pooling"))
    (tmp_path / "odd" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "weird", "embedding_dimension": 5}')
    with pytest.raises(ModelError, match=r"1_Pooling: cannot be loaded .*weird"):
        open_encoder(f"onnx:{tmp_path / 'odd'}")


def test_no_export_and_no_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no ONNX export in this folder"):
        open_encoder(f"onnx:{tmp_path}")
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelError, match="onnxruntime is not installed"):
        open_encoder(f"onnx:{tmp_path}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("modules.json", "{}", "it is not a list"),
        ("modules.json", '[{"type": "x.Pooling"}]', "has no path"),
        ("modules.json", '[{"type": "x.Pooling", "path": "../../elsewhere"}]', "is not a folder inside"),
        ("modules.json", '[{"type": 3, "path": ""}]', "type is not text"),
        ("modules.json", "[" * 50_000, "nested too deeply"),
        ("1_Pooling/config.json", "[]", "it is not an object"),
        ("tokenizer_config.json", '{"pad_token": 3}', "pad_token is not text"),
        ("tokenizer_config.json", "[]", "it is not an object"),
        ("sentence_bert_config.json", "3", "it is not an object"),
        ("tokenizer.json", "{}", "cannot be used"),
    ],
)
def test_a_folder_with_other_json_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text('[{"type": "x.Pooling", "path": "1_Pooling"}]')
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean", "embedding_dimension": 5}')
    unigram().backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert [type(module) for module in _modules_after_graph(tmp_path)] == [Pooling]
    assert _tokenizer(tmp_path).token_to_id("<pad>") == 1
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=said):
        _ = (_modules_after_graph(tmp_path), _tokenizer(tmp_path))

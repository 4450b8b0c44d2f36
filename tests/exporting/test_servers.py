"""Servers that cannot be installed here: their rules, read in their source, lead from our folders to our embeddings.

Nothing of theirs runs. Each function below is what one of them takes from a folder, written down from the files that its
docstring names; transformers, onnxruntime and numpy do the rest.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.export import export
from isogloss.models.bridge import Bridge
from isogloss.models.saving import set_matryoshka_dimensions
from isogloss.models.student import Student
from isogloss.types import FloatArray
from tiny import TEXTS

DIMENSION, MAX_TOKENS = 12, 20
SENTENCES = [*TEXTS[:6], " ".join(TEXTS)]
OLD = "sentence_transformers.models."
IDENTITY = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class Read:
    """What a server takes from a folder."""

    pooling: str
    dense: list[str]
    max_tokens: int
    normalize: bool


def text_embeddings_inference(folder: Path) -> Read:
    """huggingface/text-embeddings-inference at 0d124dc: router/src/lib.rs, backends/src/lib.rs, candle/src/models/dense.rs.

    The router needs two booleans of `1_Pooling/config.json`; the first mode that is on counts: cls, mean, last token. Layers
    are applied if every module in `modules.json` has one of four old names, with a number, a name and a path, and if their
    activation is the identity or tanh. `max_seq_length` limits text. Requests normalize unless they say otherwise.
    """
    config, pooling = _json(folder / "config.json"), _json(folder / "1_Pooling" / "config.json")
    assert isinstance(config["architectures"], list) and config["model_type"] and config["max_position_embeddings"] > 0
    assert not any(name.endswith("Classification") for name in config["architectures"])
    modes = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "last": "pooling_mode_lasttoken"}
    assert isinstance(pooling[modes["cls"]], bool) and isinstance(pooling[modes["mean"]], bool)
    modules = _json(folder / "modules.json")
    assert {one["type"] for one in modules} <= {OLD + kind for kind in ("Transformer", "Pooling", "Dense", "Normalize")}
    assert all(isinstance(one["idx"], int) and one["name"] and isinstance(one["path"], str) for one in modules)
    dense = [one["path"] for one in modules if one["type"] == f"{OLD}Dense"]
    for path in dense:
        layer = _json(folder / path / "config.json")
        assert layer["activation_function"] in (IDENTITY, "torch.nn.modules.activation.Tanh")
        assert isinstance(layer["bias"], bool)
        weight = load_file(folder / path / "model.safetensors")["linear.weight"]
        assert weight.shape == (layer["out_features"], layer["in_features"])
    body = _json(folder / "sentence_bert_config.json")
    return Read(next(mode for mode, key in modes.items() if pooling.get(key)), dense, body["max_seq_length"], True)


def vllm(folder: Path) -> Read:
    """vllm-project/vllm at a014e35: transformers_utils/config.py, config/model.py, model_executor/models/adapters.py.

    Pooling, Dense and Normalize are found in `modules.json` by their old names. Of the pooling's keys that are true, the first
    word after `pooling_mode_` is the mode, and keys that name none are passed over. The limit needs both keys of
    `sentence_bert_config.json`. Layers have `weight`, `linear.weight` or `dense.weight`, and an activation of torch.nn.modules.
    """
    modules = {one["type"]: one["path"] for one in _json(folder / "modules.json")}
    pooling = _json(folder / modules[f"{OLD}Pooling"] / "config.json")
    words = [key.removeprefix("pooling_mode_").split("_")[0].upper() for key, value in pooling.items() if value is True]
    known = {"CLS": "cls", "MEAN": "mean", "LASTTOKEN": "last"}
    modes = [known[word] for word in words if word in known]
    assert len(modes) == 1
    body = _json(folder / "sentence_bert_config.json")
    assert {"max_seq_length", "do_lower_case"} <= set(body)
    dense = [path for kind, path in modules.items() if kind == f"{OLD}Dense"]
    for path in dense:
        assert _json(folder / path / "config.json")["activation_function"] == IDENTITY
        assert {"linear.weight", "linear.bias"} <= set(load_file(folder / path / "model.safetensors"))
    return Read(modes[0], dense, body["max_seq_length"], f"{OLD}Normalize" in modules)


def computed(folder: Path, read: Read) -> FloatArray:
    """Embeddings of a folder as a server computes them from what it has read: body, pooling, layers, length."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, body = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=read.max_tokens, return_tensors="pt")
    with torch.no_grad():
        states = body(**batch).last_hidden_state.numpy()
    mask = batch["attention_mask"].numpy()[..., None]
    last = mask[..., 0].sum(1) - 1
    pooled = {
        "cls": lambda: states[:, 0],
        "mean": lambda: (states * mask).sum(1) / mask.sum(1),
        "last": lambda: states[np.arange(len(states)), last],
    }[read.pooling]()
    for path in read.dense:
        layer = load_file(folder / path / "model.safetensors")
        pooled = pooled @ layer["linear.weight"].T + layer["linear.bias"]
    return np.asarray(pooled / np.linalg.norm(pooled, axis=1, keepdims=True) if read.normalize else pooled)


def _json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can hold
    return json.loads(path.read_text(encoding="utf-8"))


def saved(models: Path, folder: Path, mode: str, bridged: bool) -> Student:
    from sentence_transformers.sentence_transformer.modules import Pooling

    student = Student.from_pretrained(str(models / "student"), max_tokens=MAX_TOKENS, device="cpu")
    student.model[1] = Pooling(24, mode)
    if bridged:
        random = np.random.default_rng(4)
        weight = random.normal(size=(DIMENSION, 24)).astype(np.float32)
        student.add_bridge(Bridge(weight, random.normal(size=DIMENSION).astype(np.float32), 0.1, {}), normalize=True)
    else:
        student.add_normalization()
    student.save_pretrained(folder)
    return student


@pytest.mark.parametrize("server", [text_embeddings_inference, vllm])
@pytest.mark.parametrize(("mode", "bridged"), [("mean", True), ("cls", False), ("lasttoken", True)])
def test_the_rules_of_a_server_lead_to_our_embeddings(
    models: Path, tmp_path: Path, server: Callable[[Path], Read], mode: str, bridged: bool
) -> None:
    student = saved(models, tmp_path / "model", mode, bridged)
    assert np.abs(computed(tmp_path / "model", server(tmp_path / "model")) - student.encode(SENTENCES)).max() < 1e-5


def test_what_text_embeddings_inference_takes_from_an_onnx_export(models: Path, tmp_path: Path) -> None:
    """huggingface/text-embeddings-inference at 0d124dc, backends/ort/src/lib.rs, and the router as above.

    It opens `model.onnx` or `onnx/model.onnx`, gives it `input_ids` and `attention_mask`, and other inputs only if they are
    named `token_type_ids`, `position_ids` or `past_key_values.…`; it pads on the right with `pad_token_id` of config.json, and
    returns `sentence_embedding` as 32-bit floats, without pooling.
    """
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    student, out = saved(models, tmp_path / "model", "mean", bridged=True), tmp_path / "onnx"
    settings = ExportSettings(precisions=("fp32",), max_queries=2, max_candidates=4)
    export(str(tmp_path / "model"), "onnx", out, settings=settings)
    read, config = text_embeddings_inference_files(out), _json(out / "config.json")
    assert {"hidden_size", "num_hidden_layers", "pad_token_id"} <= set(config)
    assert _json(out / "tokenizer_config.json").get("padding_side", "right") == "right"
    assert not (out / "model.onnx").exists()
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    tokenizer.enable_truncation(read["max_seq_length"])
    tokenizer.enable_padding(pad_id=config["pad_token_id"])
    batch = tokenizer.encode_batch(SENTENCES)
    session = InferenceSession(str(out / "onnx" / "model.onnx"))
    assert {one.name for one in session.get_inputs()} == {"input_ids", "attention_mask"}
    inputs = {"input_ids": [row.ids for row in batch], "attention_mask": [row.attention_mask for row in batch]}
    (found,) = session.run(["sentence_embedding"], {name: np.array(rows) for name, rows in inputs.items()})
    assert found.dtype == np.float32 and np.abs(found - student.encode(SENTENCES)).max() < 1e-5


def text_embeddings_inference_files(folder: Path) -> dict[str, int]:
    """The router reads config.json, 1_Pooling/config.json and the length also when onnxruntime computes."""
    assert _json(folder / "1_Pooling" / "config.json")["pooling_mode_mean_tokens"] is True
    assert _json(folder / "config.json")["max_position_embeddings"] > 0
    read: dict[str, int] = _json(folder / "sentence_bert_config.json")
    return read


def test_sizes_that_embeddings_can_be_truncated_to(models: Path, tmp_path: Path) -> None:
    """Both take a request's `dimensions` only if it is one of `matryoshka_dimensions` in config.json, as transformers reads it.

    vllm-project/vllm at a014e35: config/model.py, pooling_params.py. sgl-project/sglang at cce0a12:
    srt/configs/model_config.py, srt/managers/tokenizer_manager.py.
    """
    from transformers import AutoConfig

    student = saved(models, tmp_path / "model", "mean", bridged=True)
    assert not hasattr(AutoConfig.from_pretrained(tmp_path / "model"), "matryoshka_dimensions")
    set_matryoshka_dimensions(student.model, (8, 4))
    student.save_pretrained(tmp_path / "model")
    assert AutoConfig.from_pretrained(tmp_path / "model").matryoshka_dimensions == [4, 8, DIMENSION]
    again = Student.from_pretrained(str(tmp_path / "model"), device="cpu")
    set_matryoshka_dimensions(again.model, ())
    again.save_pretrained(tmp_path / "model")
    assert "matryoshka_dimensions" not in _json(tmp_path / "model" / "config.json")

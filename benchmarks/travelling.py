"""Models that travel in few bytes: matrices in 4 bits where that loses nothing (they came so), the rest in half precision."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isogloss.models.bundled_e5 import dequantize_q4


def four_bits(values: Any) -> Any:  # noqa: ANN401 - arrays
    """Q4_0 blocks (see isogloss.models.bundled_e5) that give back exactly these values; None if there are none."""
    blocks = values.reshape(-1, 32)
    largest = blocks[np.arange(len(blocks)), np.abs(blocks).argmax(1)]
    scale = (largest / -8).astype(np.float16)
    safe = np.where(scale == 0, 1, scale).astype(np.float32)[:, None]
    nibbles = np.clip(np.round(blocks / safe) + 8, 0, 15).astype(np.uint8)
    packed = np.empty((len(blocks), 18), dtype=np.uint8)
    packed[:, :2] = scale[:, None].view(np.uint8)
    packed[:, 2:] = nibbles[:, :16] | (nibbles[:, 16:] << 4)
    return packed if np.array_equal(dequantize_q4(packed).reshape(values.shape), values) else None


def pack(model: Any, folder: Path) -> None:  # noqa: ANN401 - a SentenceTransformer
    """Write a sentence-transformers model with a BERT body and mean pooling."""
    folder.mkdir(parents=True, exist_ok=True)
    body = model[0].auto_model
    arrays: dict[str, Any] = {}
    for name, value in body.state_dict().items():
        packed = four_bits(value.numpy()) if value.ndim == 2 and value.shape[1] % 32 == 0 else None
        if packed is not None:
            arrays[f"{name}|4"] = packed
            arrays[f"{name}|shape"] = np.array(value.shape)
        else:
            arrays[name] = value.numpy() if not value.is_floating_point() else value.half().numpy()
    np.savez(folder / "weights.npz", **arrays)
    (folder / "config.json").write_text(json.dumps(body.config.to_dict()))
    model.tokenizer.save_pretrained(folder / "tokenizer")


def unpack(folder: Path) -> Any:  # noqa: ANN401
    """The model again, on the CPU, in single precision, with a normalization layer."""
    import tempfile

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    config = BertConfig.from_dict(json.loads((folder / "config.json").read_text()))
    config.architectures = ["BertModel"]
    small = BertConfig.from_dict(config.to_dict() | {"num_hidden_layers": 0, "vocab_size": 8})
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    with tempfile.TemporaryDirectory() as temporary:
        BertModel(small).save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        first = Transformer(temporary)
    arrays = np.load(folder / "weights.npz")
    state = {}
    for name in arrays.files:
        base, _, kind = name.partition("|")
        if kind == "4":
            state[base] = torch.from_numpy(dequantize_q4(arrays[name])).view(*arrays[f"{base}|shape"].tolist())
        elif not kind:
            value = torch.from_numpy(arrays[name])
            state[base] = value.float() if value.is_floating_point() else value
    body = BertModel(config, add_pooling_layer=any(name.startswith("pooler") for name in state))
    body.load_state_dict(state, strict=False)
    first.model, first.processor = body, tokenizer
    model = SentenceTransformer(modules=[first, Pooling(config.hidden_size, "mean"), Normalize()], device="cpu")
    model.model_card_data.generate_widget_examples = False
    return model.eval()

"""The 4-bit reader against a file written here byte by byte, and against the real one."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers import BertConfig, BertModel

from isogloss.errors import ModelError
from isogloss.models import bundled_e5 as e5_q4

HIDDEN, LAYERS, FEED, VOCABULARY, POSITIONS = 32, 2, 64, 20, 16
SHORT = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


def quantise(values: NDArray[np.float32]) -> tuple[bytes, NDArray[np.float32]]:
    """Q4_0 by its definition, one block at a time, and the values that must come back."""
    packed, kept = b"", []
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        levels = np.clip(np.round(block / np.float32(scale or 1)), -8, 7).astype(int) + 8
        packed += scale.tobytes() + bytes(int(levels[i]) | int(levels[i + 16]) << 4 for i in range(16))
        kept.append((levels - 8).astype(np.float32) * np.float32(scale))
    return packed, np.concatenate(kept)


@given(st.lists(st.floats(-4, 4, width=32), min_size=64, max_size=64))
def test_blocks_come_back_as_defined(values: list[float]) -> None:
    packed, expected = quantise(np.array(values, dtype=np.float32))
    assert np.array_equal(e5_q4.dequantize_q4(np.frombuffer(packed, dtype=np.uint8)), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(e5_q4, "BLOCKS_AT_ONCE", 1)
        assert np.array_equal(e5_q4.dequantize_q4(np.frombuffer(packed, dtype=np.uint8)), expected)


def short_name(name: str) -> str:
    tables = {
        "word_embeddings.weight": "emb.word",
        "position_embeddings.weight": "emb.pos",
        "token_type_embeddings.weight": "emb.type",
    }
    place = name.removeprefix("embeddings.")
    if place in tables:
        return tables[place]
    kind = "w" if name.endswith("weight") else "b"
    if name.startswith("embeddings.LayerNorm"):
        return f"emb.ln.{kind}"
    _, _, layer, rest = name.split(".", 3)
    return f"l{layer}.{SHORT[rest.rsplit('.', 1)[0]]}.{kind}"


def write_file(path: Path, pieces: list[tuple[str, float]]) -> BertModel:
    """Write a small model in the file's layout; return it with the values that quantisation left."""
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            intermediate_size=FEED,
            max_position_embeddings=POSITIONS,
            pad_token_id=1,
        ),
        add_pooling_layer=False,
    ).eval()
    head = b"E5S1" + struct.pack("<8i", 1, HIDDEN, LAYERS, 4, FEED, VOCABULARY, POSITIONS, 2) + struct.pack("<fi", 1e-12, 32)
    blob = b"".join(piece.encode() for piece, _ in pieces)
    offsets = np.cumsum([0] + [len(piece.encode()) for piece, _ in pieces]).astype("<u4")
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, len(blob)) + offsets.tobytes()
    head += np.array([score for _, score in pieces], dtype="<f4").tobytes() + blob
    mapping = struct.pack("<IBI", ord("\u00a0"), 1, ord(" "))
    head += struct.pack("<iI", 1, len(mapping)) + mapping
    state = dict(model.state_dict())
    data: list[tuple[str, int, int, bytes]] = []
    for name, tensor in state.items():
        values = tensor.numpy()
        if values.ndim == 2 and "LayerNorm" not in name and "position" not in name and "token_type" not in name:
            packed, kept = quantise(values)
            tensor.copy_(torch.from_numpy(kept.reshape(values.shape)))
            data.append((short_name(name), 1, values.size, packed))
        else:
            data.append((short_name(name), 0, values.size, values.astype("<f4").tobytes()))
    table_bytes = 4 + sum(2 + len(name) + 21 for name, *_ in data)
    place = len(head) + table_bytes
    table = struct.pack("<i", len(data))
    for name, kind, count, raw in data:
        table += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, count, place, len(raw))
        place += len(raw)
    path.write_bytes(head + table + b"".join(raw for *_, raw in data))
    return model


PIECES = [
    ("<s>", 0.0),
    ("<pad>", 0.0),
    ("</s>", 0.0),
    ("<unk>", 0.0),
    ("▁", -3.0),
    ("▁hello", -5.0),
    ("▁world", -5.5),
    ("h", -9.0),
    ("～", -8.0),
]


def replacements(file: e5_q4.Q4File) -> dict[str, str]:
    """The map of characters: for each a code point, a count, and the code points that replace it."""
    found, rest = dict[str, str](), file.normalization
    while rest:
        code_point, count = struct.unpack_from("<IB", rest)
        found[chr(code_point)] = "".join(map(chr, struct.unpack_from(f"<{count}I", rest, 5)))
        rest = rest[5 + 4 * count :]
    return found


def test_a_written_model_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "small.bin"
    original = write_file(path, PIECES)
    file = e5_q4.read_q4(path)
    body, tokenizer = e5_q4.to_bert(file), e5_q4.to_tokenizer(file)
    assert replacements(file) == {"\u00a0": " "}
    batch = tokenizer(["hello world", "hello"], padding=True, return_tensors="pt", return_token_type_ids=False)
    assert batch["input_ids"].tolist() == [[0, 5, 6, 2], [0, 5, 2, 1]]
    with torch.no_grad():
        assert torch.allclose(body(**batch).last_hidden_state, original(**batch).last_hidden_state, atol=1e-6)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.bin"
    write_file(path, PIECES)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="the file ends at byte"):
        e5_q4.read_q4(path)
    path.write_bytes(b"GGUF" + whole[4:])
    with pytest.raises(ModelError, match="starts with b'GGUF'"):
        e5_q4.read_q4(path)


@pytest.fixture(scope="module")
def real() -> e5_q4.Q4File:
    return e5_q4.read_q4(e5_q4.locate())


def test_the_real_file_declares_multilingual_e5_small(real: e5_q4.Q4File) -> None:
    assert [real.config[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size")] == [384, 12, 250037]
    assert len(real.pieces) == 250002


def test_the_tokenizer_normalises_as_the_file_says(real: e5_q4.Q4File) -> None:
    """Nmt + NFKC stands for the file's own table: every code point of it."""
    normalizer = e5_q4.to_tokenizer(real).backend_tokenizer.normalizer
    different = {c for c, wanted in replacements(real).items() if normalizer.normalize_str(c) != wanted}
    assert not different
    assert normalizer.normalize_str("ｶﾞ～①") == "ガ～1"


def test_not_installed_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5_q4, "PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match="not installed") as caught:
        e5_q4.locate()
    assert "pip install" in caught.value.hint

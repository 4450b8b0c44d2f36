"""An ONNX export of a sentence-transformers model, run by onnxruntime: nothing of torch is needed.

A folder has `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`. If the graph gives `sentence_embedding`, that is the
vector. If it gives one vector a token, they are pooled and normalized as `modules.json` says, as sentence-transformers would.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from isogloss.errors import ModelError
from isogloss.models.distinct import each_once
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.progress import OnProgress, silent
from isogloss.shapes import FILE_NAME, NOTHING, OBJECT, TEXT, Either, Leaf, check
from isogloss.storage import content_hash, file_hash, read_json
from isogloss.types import FloatArray

AT_ONCE = 32
GRAPHS = ("model.onnx", "onnx/model.onnx")
SENTENCE = "sentence_embedding"
INNER_FOLDER = Leaf("a folder inside the model's", lambda path: path == "" or FILE_NAME.fits(path))
TOKENIZER = {"pad_token?": Either(TEXT, Either({"content": TEXT}, NOTHING))}
LONGEST = 512  # tokens, where the folder does not say
SMALLEST = 1e-12


class OnnxEncoder:
    """An exported graph with its tokenizer, pooling and normalization."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, f"onnx:{folder}"
        self.graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
        if self.graph is None or not (folder / "tokenizer.json").is_file():
            raise ModelError(f"{folder}: no ONNX export there", hint="it needs model.onnx and tokenizer.json")
        try:
            runtime: Any = import_module("onnxruntime")
        except ImportError as error:
            raise ModelError("onnxruntime is not installed here", hint="pip install onnxruntime") from error
        try:
            self._session = runtime.InferenceSession(str(self.graph), providers=runtime.get_available_providers())
        except Exception as error:  # the runtime has one for each thing that can be wrong with a graph
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(f"{self.graph}: cannot be run ({reason})", hint="export the model again") from error
        self._inputs = {one.name for one in self._session.get_inputs()}
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = SENTENCE if SENTENCE in outputs else outputs[0]
        self._pooling, self._normalise = _after_the_body(folder)
        self._tokenizer = _tokenizer(folder)

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.encode(["."]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """Names the graph, its weights, the tokenizer and what comes after."""
        files = [one for one in sorted(self.folder.rglob("*")) if one.suffix in (".onnx", ".json", ".data", ".onnx_data")]
        return content_hash("onnx", *(file_hash(one) for one in files))

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, each distinct one computed once."""
        return each_once(texts, self._some, AT_ONCE, self.name, on_progress, stage)

    def _some(self, texts: list[str]) -> FloatArray:
        cut = self._tokenizer.encode_batch(texts)
        fields = {
            "input_ids": np.array([one.ids for one in cut], dtype=np.int64),
            "attention_mask": np.array([one.attention_mask for one in cut], dtype=np.int64),
            "token_type_ids": np.array([one.type_ids for one in cut], dtype=np.int64),
        }
        (found,) = self._session.run([self._output], {name: fields[name] for name in fields if name in self._inputs})
        vectors = np.asarray(found, dtype=np.float32)
        if vectors.ndim == 3:
            vectors = pooled(vectors, fields["attention_mask"], self._pooling)
            if self._normalise:
                vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)
        return vectors


def pooled(tokens: FloatArray, mask: NDArray[np.int64], mode: str) -> FloatArray:
    """One vector a sentence from one a token; `mask` is 0 for padding."""
    real = mask[:, :, None].astype(np.float32)
    if mode == "cls":
        first = mask.argmax(axis=1)  # the tokenizer may pad on the left
        heads: FloatArray = tokens[np.arange(len(tokens)), first]
        return heads
    if mode == "max":
        result: FloatArray = np.where(real > 0, tokens, -np.inf).max(axis=1).astype(np.float32)
        return result
    total: FloatArray = (tokens * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1e-9)
    return total


def _after_the_body(folder: Path) -> tuple[str, bool]:
    """How tokens are pooled, and whether the result has length 1: mean and no, where the folder does not say."""
    if not (folder / "modules.json").is_file():
        return "mean", False
    mode, normalize = "mean", False
    for module in _told(folder / "modules.json", [{"type": TEXT, "path": INNER_FOLDER}]):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            mode = _mode(_told(folder / module["path"] / "config.json", OBJECT), folder)
        elif kind == "Normalize":
            normalize = True
        elif kind not in ("Transformer",):
            raise ModelError(
                f"{folder}: a {kind} module comes after the graph", hint=f"export it with the graph, as an output {SENTENCE}"
            )
    return mode, normalize


def _told(path: Path, shape: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """What a file of the folder says; one that is not there says nothing."""
    try:
        return check(read_json(path), shape) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be used ({error})", hint="export the model again") from error


def _mode(config: dict[str, Any], folder: Path) -> str:
    modes = [str(config["pooling_mode"])] if isinstance(config.get("pooling_mode"), str) else []
    modes = modes or [key.removeprefix("pooling_mode_").removesuffix("_tokens") for key, on in config.items() if on is True]
    modes = [
        {"cls_token": "cls", "max": "max", "cls": "cls", "mean": "mean"}.get(one, one)
        for one in modes
        if one != "include_prompt"
    ]
    if len(modes) != 1 or modes[0] not in ("mean", "cls", "max"):
        raise ModelError(
            f"{folder}: pooling {' and '.join(modes) or 'of no kind'} is not known here",
            hint=f"export the graph with {SENTENCE}",
        )
    return modes[0]


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer, cutting at the model's own limit and padding each batch to its longest."""
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library has no class of its own for it
        raise ModelError(f"{folder / 'tokenizer.json'}: cannot be used ({error})", hint="export the model again") from error
    settings = _told(folder / "tokenizer_config.json", TOKENIZER)
    lengths = _told(folder / "sentence_bert_config.json", OBJECT).get("max_seq_length"), settings.get("model_max_length")
    limit = next((one for one in lengths if isinstance(one, int) and 0 < one < 10**6), LONGEST)
    pad = settings.get("pad_token") or "[PAD]"
    pad = pad["content"] if isinstance(pad, dict) else pad
    refuse_empty_tokenizer(tokenizer, f"onnx:{folder}")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
    return tokenizer

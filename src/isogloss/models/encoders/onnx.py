"""An ONNX export of a sentence-transformers model, run by onnxruntime.

The folder has `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`. If the graph has an output `sentence_embedding`, that
is the embedding. If it has one vector per token, the modules that follow in `modules.json` (Pooling, Dense, Normalize) are
applied to them; without that file, tokens are averaged.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from isogloss.errors import ModelError, optional_package
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.shapes import FILE_NAME, NOTHING, OBJECT, TEXT, Leaf, check
from isogloss.storage import content_hash, file_hash, read_json
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers.base.modules import Module

GRAPHS = ("model.onnx", "onnx/model.onnx")
SENTENCE = "sentence_embedding"
INNER_FOLDER = Leaf("a folder inside the model's", lambda path: path == "" or FILE_NAME.fits(path))
TOKENIZER = {"pad_token?": (TEXT, {"content": TEXT}, NOTHING)}
MAX_TOKENS = 512  # if the folder does not say
AGAIN = "export the model again"


class OnnxEncoder(ExternalEncoder):
    """An exported graph with its tokenizer and the modules that follow it."""

    batch_size = 32

    def __init__(self, name: Path | str) -> None:
        self.folder = folder = Path(name)
        self.name = f"onnx:{name}"
        self.graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
        if self.graph is None or not (folder / "tokenizer.json").is_file():
            raise ModelError(f"{folder}: no ONNX export in this folder", hint="it needs model.onnx and tokenizer.json")
        runtime = optional_package("onnxruntime", ModelError("onnxruntime is not installed here", "pip install onnxruntime"))
        try:
            self._session = runtime.InferenceSession(str(self.graph), providers=runtime.get_available_providers())
        except Exception as error:  # onnxruntime has many classes of errors
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(f"{self.graph}: cannot be run ({reason})", hint=AGAIN) from error
        self._inputs = {field.name for field in self._session.get_inputs()}
        outputs = [field.name for field in self._session.get_outputs()]
        self._output = SENTENCE if SENTENCE in outputs else outputs[0]
        self._modules, self._tokenizer = _modules_after_graph(folder), _tokenizer(folder)

    def _identity(self) -> str:
        """The graph, its weights, the tokenizer and the modules after the graph."""
        files = {path for path in self.folder.rglob("*") if path.suffix in (".onnx", ".json", ".data", ".onnx_data")}
        files |= {*self.folder.glob("*/*.safetensors"), *self.folder.glob("*/*.bin")}  # of Dense modules
        return content_hash("onnx", *map(file_hash, sorted(files)))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        encoded = self._tokenizer.encode_batch(texts)
        attributes = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        fields = {
            field: np.array([getattr(row, name) for row in encoded], dtype=np.int64) for field, name in attributes.items()
        }
        (output,) = self._session.run([self._output], {name: fields[name] for name in fields if name in self._inputs})
        found = np.asarray(output, dtype=np.float32)
        return found if found.ndim == 2 else self._pooled(found, fields["attention_mask"])

    def _pooled(self, tokens: FloatArray, mask: IntArray) -> FloatArray:
        import torch

        features: Any = {"token_embeddings": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(mask)}
        with torch.inference_mode():
            for module in self._modules:
                features = module(features)
        vectors: FloatArray = features[SENTENCE].numpy()
        return vectors


def _modules_after_graph(folder: Path) -> "list[Module]":
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    kinds: dict[str, type[Module]] = {"Pooling": Pooling, "Dense": Dense, "Normalize": Normalize}
    modules: list[Module] = []
    for module in _read_settings(folder / "modules.json", [{"type": TEXT, "path": INNER_FOLDER}]):
        kind, place = module["type"].rsplit(".", 1)[-1], module["path"]
        if kind not in (*kinds, "Transformer"):
            raise ModelError(
                f"{folder}: a {kind} module comes after the graph", hint=f"export it with the graph, as an output {SENTENCE}"
            )
        if kind in kinds:
            _read_settings(folder / place / "config.json", OBJECT)
            try:
                modules.append(kinds[kind].load(str(folder), place, local_files_only=True))
            except Exception as error:  # of any kind: the settings are those of another program
                raise ModelError(f"{folder / place}: cannot be loaded ({error})", hint=AGAIN) from error
    return modules if any(isinstance(module, Pooling) for module in modules) else [Pooling(0), *modules]


def _read_settings(path: Path, shape: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """The contents of a settings file; {} if it does not exist."""
    try:
        return check(read_json(path), shape) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be used ({error})", hint=AGAIN) from error


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer: truncates at the model's limit and pads each batch to its longest sentence."""
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelError(f"{folder / 'tokenizer.json'}: cannot be used ({error})", hint=AGAIN) from error
    settings = _read_settings(folder / "tokenizer_config.json", TOKENIZER)
    lengths = (
        _read_settings(folder / "sentence_bert_config.json", OBJECT).get("max_seq_length"),
        settings.get("model_max_length"),
    )
    limit = next((length for length in lengths if isinstance(length, int) and 0 < length < 10**6), MAX_TOKENS)
    pad = settings.get("pad_token") or "[PAD]"
    pad = pad["content"] if isinstance(pad, dict) else pad
    refuse_empty_tokenizer(tokenizer, f"onnx:{folder}")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
    return tokenizer

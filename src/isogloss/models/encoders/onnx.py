"""An ONNX export of a sentence-transformers model, run by onnxruntime.

A folder has `model.onnx` or `onnx/model.onnx`, and `tokenizer.json`; `onnx:FOLDER/onnx/model_qint8_avx512_vnni.onnx` names
another graph of the folder. If the graph has an output `sentence_embedding`, that is the embedding. If it has one vector per
token, the modules that follow in `modules.json` (Pooling, Dense, Normalize) are applied to them; without that file, tokens are
averaged. The default prompt of `config_sentence_transformers.json` goes before every text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from isogloss.checksums import SUMS, check_sums
from isogloss.errors import ModelError, optional_package
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.shapes import FILE_NAME, NOTHING, OBJECT, TEXT, Each, Leaf, check
from isogloss.storage import content_hash, file_hash, read_json
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers.base.modules import Module

SENTENCE = "sentence_embedding"
TITLES = {"onnx": "ONNX", "openvino": "OpenVINO"}
INNER_FOLDER = Leaf("a folder inside the model's", lambda path: path == "" or FILE_NAME.fits(path))
TOKENIZER = {"pad_token?": (TEXT, {"content": TEXT}, NOTHING)}
MODULES = [{"type": TEXT, "path": INNER_FOLDER}]
PROMPTS = {"prompts?": (Each(TEXT, TEXT), NOTHING), "default_prompt_name?": (TEXT, NOTHING)}
MAX_TOKENS = 512  # if the folder does not say
TOKENS_AT_ONCE = 512  # of a batch, padding included: its activations stay in a core's cache
AGAIN = "export the model again"


class OnnxEncoder(ExternalEncoder):
    """An exported graph with its tokenizer and the modules that follow it.

    `name` is a folder, or a graph in it; `threads` is the number of cores for one batch (0: all). Another runtime is a subclass
    with `kind`, `graphs`, `_open`, `_run` and `_weights`.
    """

    kind: ClassVar[str] = "onnx"  # also the prefix of names, and the folder of the graphs
    graphs: ClassVar[tuple[str, ...]] = ("model.onnx", "onnx/model.onnx")
    batch_size = 1024  # texts that are tokenized and sorted together

    def __init__(self, name: Path | str, threads: int = 0) -> None:
        self.folder, self.graph = self._located(Path(name))
        check_sums(self.folder, self._damaged)
        self.name = f"{self.kind}:{name}"
        self._runtime = self._package()
        try:
            self._inputs, outputs = self._open(threads)
        except Exception as error:  # the runtimes have many classes of errors
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(f"{self.graph}: cannot be run ({reason})", hint=AGAIN) from error
        self._output = SENTENCE if SENTENCE in outputs else outputs[0]
        self._modules = [] if self._output == SENTENCE else _modules_after_graph(self.folder)
        self._tokenizer = _tokenizer(self.folder)
        self.pad_id, self.max_tokens = _padding_and_limit(self._tokenizer)
        self._tokenizer.no_padding()
        self.vocabulary = self._tokenizer.get_vocab_size()
        self._special_tokens = not _is_static(self.folder)
        self.prompts, self.default_prompt = _prompts(self.folder)

    def _damaged(self, file: str) -> ModelError:
        return ModelError(f"{self.folder}: {file} is damaged: it does not match {SUMS}", hint=f"{AGAIN}, or delete {SUMS}")

    def token_ids(self, texts: Sequence[str], prompt: str | None = None) -> list[list[int]]:
        """The token ids of `texts`, prompted and truncated as the model does it, without padding."""
        prompt = (self.prompt or self.default_prompt) if prompt is None else prompt
        encoded = self._tokenizer.encode_batch([prompt + text for text in texts], add_special_tokens=self._special_tokens)
        return [row.ids for row in encoded]

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of tokenized sentences, padded to the longest and computed as one batch."""
        fields = self._padded(rows)
        (output,) = self._run(self._read(fields), [self._output])
        found = np.asarray(output, dtype=np.float32)
        return found if found.ndim == 2 else self._pooled(found, fields["attention_mask"])

    def run(self, rows: Sequence[Sequence[int]], outputs: Sequence[str]) -> list[FloatArray]:
        """Any outputs of the graph for a batch of tokenized sentences."""
        return self._run(self._read(self._padded(rows)), outputs)

    def _read(self, fields: dict[str, IntArray]) -> dict[str, IntArray]:
        """Those that the graph takes."""
        return {name: fields[name] for name in fields if name in self._inputs}

    def _padded(self, rows: Sequence[Sequence[int]]) -> dict[str, IntArray]:
        """The inputs of the graph for a batch, padded to the longest sentence."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        longest = max(int(lengths.max(initial=0)), 1)
        mask = (np.arange(longest) < lengths[:, None]).astype(np.int64)
        ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        ids[mask == 1] = [token for row in rows for token in row]
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        """In batches of sentences of similar length, the longest first."""
        rows = self.token_ids([text[len(self.prompt) :] for text in texts])  # they come with the prompt
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]), reverse=True)
        vectors: FloatArray | None = None
        start = 0
        while start < len(order):
            end = start + max(1, TOKENS_AT_ONCE // max(1, len(rows[order[start]])))
            batch = order[start:end]
            found = self.encode_ids([rows[place] for place in batch])
            vectors = np.empty((len(rows), found.shape[1]), dtype=np.float32) if vectors is None else vectors
            vectors[batch] = found
            start = end
        assert vectors is not None, "there is at least one text"
        return vectors

    def _identity(self) -> str:
        """The graph, its weights, the tokenizer, the prompts and the modules after the graph."""
        files = {self.graph, *self._weights(), *self.folder.glob("*.json")} - {self.folder / "export.json"}
        if self._modules:
            files |= {file for kind in ("json", "safetensors", "bin") for file in self.folder.glob(f"*/*.{kind}")}
        return content_hash(self.kind, *map(file_hash, sorted(files)))

    def _package(self) -> Any:  # noqa: ANN401 - an untyped module
        return optional_package("onnxruntime", ModelError("onnxruntime is not installed here", "pip install onnxruntime"))

    def _open(self, threads: int) -> tuple[set[str], list[str]]:
        """Load the graph, and say what its inputs and outputs are called."""
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = self._runtime.get_available_providers()
        self._session = self._runtime.InferenceSession(str(self.graph), options, providers=providers)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        return {field.name for field in inputs}, [field.name for field in outputs]

    def _run(self, fields: dict[str, IntArray], outputs: Sequence[str]) -> list[FloatArray]:
        """These outputs for the inputs of one batch."""
        found: list[FloatArray] = self._session.run(list(outputs), fields)
        return found

    def _weights(self) -> set[Path]:
        """Files beside the graph that have weights of it."""
        return {*self.graph.parent.glob("*.data"), *self.graph.parent.glob("*.onnx_data")}

    @classmethod
    def _located(cls, place: Path) -> tuple[Path, Path]:
        """The folder of the model, and the graph."""
        first = Path(cls.graphs[0])
        if place.suffix == first.suffix:
            folder = place.parent.parent if place.parent.name == cls.kind else place.parent
            graphs = [place]
        else:
            folder, graphs = place, [place / name for name in cls.graphs]
            graphs += sorted((place / cls.kind).glob(f"*{first.suffix}"))
        found = [graph for graph in graphs if graph.is_file()]
        if not found or not (folder / "tokenizer.json").is_file():
            title = TITLES[cls.kind]
            raise ModelError(f"{place}: no {title} export in this folder", hint=f"it needs {first.name} and tokenizer.json")
        if len(found) > 1 and not any(graph in found for graph in (folder / name for name in cls.graphs)):
            names = ", ".join(graph.name for graph in found)
            message = f"{place}: several graphs, none is called {first.name} ({names})"
            raise ModelError(message, hint=f"name one: {cls.kind}:{found[0]}")
        return folder, found[0]

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
    for module in _read_settings(folder / "modules.json", MODULES):
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


def _is_static(folder: Path) -> bool:
    """Whether the first module is a StaticEmbedding: it tokenizes without special tokens."""
    modules = _read_settings(folder / "modules.json", MODULES)
    return bool(modules) and modules[0]["type"].endswith(".StaticEmbedding")


def _prompts(folder: Path) -> tuple[dict[str, str], str]:
    """The prompts by name, and the one that is the default."""
    settings = _read_settings(folder / "config_sentence_transformers.json", PROMPTS)
    prompts = dict(settings.get("prompts") or {})
    return prompts, str(prompts.get(settings.get("default_prompt_name") or "", ""))


def _read_settings(path: Path, shape: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """The contents of a settings file; {} if it does not exist."""
    try:
        return check(read_json(path), shape) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be used ({error})", hint=AGAIN) from error


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer: truncates at the model's limit, and knows the id that batches are padded with."""
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelError(f"{folder / 'tokenizer.json'}: cannot be used ({error})", hint=AGAIN) from error
    settings = _read_settings(folder / "tokenizer_config.json", TOKENIZER)
    stored: dict[str, Any] = tokenizer.truncation or {}
    lengths = (
        _read_settings(folder / "sentence_bert_config.json", OBJECT).get("max_seq_length"),
        settings.get("model_max_length"),
        stored.get("max_length"),
    )
    limit = next((length for length in lengths if isinstance(length, int) and 0 < length < 10**6), MAX_TOKENS)
    pad = settings.get("pad_token") or "[PAD]"
    pad = pad["content"] if isinstance(pad, dict) else pad
    refuse_empty_tokenizer(tokenizer, f"onnx:{folder}")
    side = "left" if settings.get("truncation_side") == "left" else "right"
    tokenizer.enable_truncation(limit, direction=side)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
    return tokenizer


def _padding_and_limit(tokenizer: Any) -> tuple[int, int]:  # noqa: ANN401 - its types do not know that both were set
    return int(tokenizer.padding["pad_id"]), int(tokenizer.truncation["max_length"])

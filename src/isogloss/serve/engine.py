"""What computes: a model as the service needs it, from text to token ids, and from batches of token ids to embeddings."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from isogloss.types import FloatArray

if TYPE_CHECKING:
    from isogloss.models.encoders.onnx import OnnxEncoder
    from isogloss.models.student import Student

InputType = Literal["query", "document"]
BATCH_TOKENS = {"cuda": 16_384}  # by device
BATCH_TOKENS_OTHERWISE = 1024


class Engine(Hashable, Protocol):
    """A loaded model. Several threads call it at once."""

    name: str
    dimension: int
    max_tokens: int
    vocabulary: int
    device: str

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts, with the prompt of their type, truncated as the model does it."""
        ...

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of tokenized sentences, computed as one batch."""
        ...


@dataclass(eq=False)
class OnnxEngine:
    """An ONNX graph on the CPU; onnxruntime computes on one core for each thread that calls it."""

    name: str
    encoder: "OnnxEncoder"
    device: str = "cpu"
    dimension: int = field(init=False)
    max_tokens: int = field(init=False)
    vocabulary: int = field(init=False)

    def __post_init__(self) -> None:
        self.dimension, self.max_tokens = self.encoder.dimension, self.encoder.max_tokens
        self.vocabulary = self.encoder.vocabulary

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts."""
        return self.encoder.token_ids(texts)

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of a batch."""
        return self.encoder.encode_ids(rows)


@dataclass(eq=False)
class TorchEngine:
    """A sentence-transformers model in torch."""

    name: str
    student: "Student"
    device: str = "cpu"
    dimension: int = field(init=False)
    max_tokens: int = field(init=False)
    vocabulary: int = field(init=False)

    def __post_init__(self) -> None:
        self.dimension, self.max_tokens = self.student.dimension, self.student.max_tokens
        self.vocabulary = len(self.student.table)

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts."""
        ids, lengths = self.student.text_tokenizer(texts)
        return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of a batch."""
        from isogloss.models.token_store import TokenStore

        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
        return self.student.vectors_of(TokenStore.of_lengths(ids, lengths, self.student.text_tokenizer.pad_id))


def open_engine(model: str, name: str, device: str = "auto") -> Engine:
    """Load a model for the service."""
    if model.startswith("onnx:"):
        from isogloss.models.encoders.onnx import OnnxEncoder

        return OnnxEngine(name, OnnxEncoder(model.removeprefix("onnx:"), threads=1))
    import torch

    from isogloss.models.loading import choose_device
    from isogloss.models.student import Student

    chosen = choose_device(device)
    if chosen == "cpu":
        torch.set_num_threads(1)  # each worker thread has its own batches
    return TorchEngine(name, Student.from_pretrained(model, device=chosen), chosen)


def served_name(model: str) -> str:
    """What clients call a model: the name of its run or folder, or its hub name."""
    place = Path(model.removeprefix("onnx:"))
    if not place.is_dir() and place.suffix != ".onnx":
        return model
    inner = ("model", "export", "onnx")
    parts = [part for part in place.resolve().parts if part not in inner and not part.endswith(".onnx")]
    return parts[-1]

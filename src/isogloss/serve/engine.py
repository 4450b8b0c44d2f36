"""What computes: a model as the service needs it, from text to token ids, and from batches of token ids to embeddings."""

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from isogloss.types import FloatArray

if TYPE_CHECKING:
    from isogloss.models.encoders.onnx import OnnxEncoder
    from isogloss.models.student import Student

InputType = Literal["query", "document"]
INPUT_TYPES: tuple[InputType, ...] = ("query", "document")
DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # names that sentence-transformers looks for
BATCH_TOKENS = {"cuda": 16_384}  # by device
BATCH_TOKENS_OTHERWISE = 1024
UNIT = 1e-3  # how far from 1 the length of a normalized vector may be
TRIED = ("Where is the station?", "1", "Она читает книгу о море, а потом идёт домой.")


@dataclass(frozen=True)
class Facts:
    """What the service knows about a model, besides how to run it."""

    name: str  # what clients call it
    device: str
    precision: str
    prompts: Mapping[str, str] = field(default_factory=dict)  # by name, as the model's folder has them
    default_prompt: str = ""
    matryoshka: tuple[int, ...] = ()  # sizes to which its vectors can be cut

    def prompt(self, input_type: InputType | None) -> str:
        """What goes before a text of this type."""
        names = DOCUMENT_PROMPTS if input_type == "document" else ("query",) if input_type else ()
        return next((self.prompts[name] for name in names if name in self.prompts), self.default_prompt)

    @property
    def input_types(self) -> list[InputType]:
        """The types of input that have a prompt."""
        return [one for one in INPUT_TYPES if self.prompt(one) != self.default_prompt or self.prompt(one)]


class Engine(Hashable, Protocol):
    """A loaded model. Several threads call it at once."""

    facts: Facts
    dimension: int
    max_tokens: int
    vocabulary: int
    shared: bool  # whether several batches are best computed at the same time, each on a core

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts, with the prompt of their type, truncated as the model does it."""
        ...

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of tokenized sentences, computed as one batch."""
        ...


class OnnxEngine:
    """An ONNX graph on the CPU; onnxruntime computes on one core for each thread that calls it."""

    shared = True

    def __init__(self, facts: Facts, encoder: "OnnxEncoder") -> None:
        self.facts, self._encoder = facts, encoder
        self.dimension, self.max_tokens, self.vocabulary = encoder.dimension, encoder.max_tokens, encoder.vocabulary

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts."""
        return self._encoder.token_ids(texts, self.facts.prompt(input_type))

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of a batch."""
        return self._encoder.encode_ids(rows)


class TorchEngine:
    """A sentence-transformers model in torch, on a GPU or on all cores: one batch at a time."""

    shared = False

    def __init__(self, facts: Facts, student: "Student") -> None:
        self.facts, self._student = facts, student
        self.dimension, self.max_tokens, self.vocabulary = student.dimension, student.max_tokens, len(student.table)
        self._tokenizing, self._computing = threading.Lock(), threading.Lock()

    def token_ids(self, texts: Sequence[str], input_type: InputType | None = None) -> list[list[int]]:
        """Token ids of texts. transformers sets truncation at each call, which two threads cannot do at once."""
        from dataclasses import replace

        with self._tokenizing:
            ids, lengths = replace(self._student.text_tokenizer, prompt=self.facts.prompt(input_type))(texts)
        return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """Embeddings of a batch. Packing switches the model's attention, so one thread at a time."""
        from isogloss.models.token_store import TokenStore

        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
        with self._computing:
            return self._student.vectors_of(TokenStore.of_lengths(ids, lengths, self._student.text_tokenizer.pad_id))


@dataclass(frozen=True)
class Served:
    """A model that is ready to answer: its engine, and what a first batch showed."""

    engine: Engine
    batch_tokens: int
    unit_length: bool  # whether its vectors have length 1

    @classmethod
    def warmed(cls, engine: Engine, batch_tokens: int = 0) -> "Served":
        """Compute some sentences, alone and together, so that no request waits for what is made at first use."""
        rows = engine.token_ids(TRIED)
        for row in rows:
            engine.encode_ids([row])
        vectors = engine.encode_ids(rows)
        batch_tokens = batch_tokens or BATCH_TOKENS.get(engine.facts.device, BATCH_TOKENS_OTHERWISE)
        return cls(engine, batch_tokens, bool(np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=UNIT)))

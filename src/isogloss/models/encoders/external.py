"""The base class of encoders outside of sentence-transformers: prompts, distinct sentences, batches, checks of the results."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.encoder import refuse_broken
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray


class ExternalEncoder(ABC):
    """A subclass sets `name` and `batch_size`, and computes the embeddings of a batch.

    `prompt` goes before every sentence. `chunk_size` is the preferred number of sentences per call of `encode`; 0: any.
    """

    name: str
    batch_size: int
    chunk_size = 0
    prompt = ""
    role_prompts: Mapping[str, str] = MappingProxyType({})  # see `roles`

    @abstractmethod
    def _encode_batch(self, texts: list[str]) -> FloatArray:
        """One row per text, in order."""

    @abstractmethod
    def _identity(self) -> str:
        """Identifies the model, without the prompt."""

    @cached_property
    def dimension(self) -> int:
        """Size of an embedding; a test sentence is encoded to find out."""
        return int(self.encode(["."]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model and the prompt; the cache stores embeddings under it."""
        return content_hash(self._identity(), self.prompt) if self.prompt else self._identity()

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row per sentence. Each distinct sentence is computed once, the longest first."""
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        order = sorted(row_of, key=len, reverse=True)
        vectors: FloatArray = np.zeros((len(order), 0), dtype=np.float32)
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            found = self._encode_batch([self.prompt + text for text in batch])
            if found.ndim != 2 or len(found) != len(batch):
                raise ModelError(
                    f"{self.name} returned {amount(len(found), 'vector')} for {amount(len(batch), 'sentence')}",
                    hint="it must return one per sentence, in order",
                )
            if not start:
                vectors = np.zeros((len(order), found.shape[1]), dtype=np.float32)
            if found.shape[1] != vectors.shape[1]:
                raise ModelError(
                    f"{self.name}: the vectors have dimension {vectors.shape[1]} and {found.shape[1]}",
                    hint="all vectors must have the same dimension",
                )
            refuse_broken(found, batch, self.name)
            vectors[[row_of[text] for text in batch]] = found
            on_progress(Step(stage, min(start + self.batch_size, len(order)), len(order), "sentences"))
        return vectors[[row_of[text] for text in texts]]

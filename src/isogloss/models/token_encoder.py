"""Embeddings of tokenized sentences, computed by a sentence-transformers model: what a student is apart from its training.

Rows are computed in chunks of similar length, without padding if the transformer allows it (`kernels/packed.py`), and from the
outputs of frozen layers if there are any. Many rows take a faster way if a sample comes out the same.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import ModelError
from isogloss.kernels.packed import Packed, hidden_states, packing, packs_exactly, pooled, runs_of
from isogloss.models.encoder import embedding_dimension
from isogloss.models.fast_encode import POOLINGS, Done, FastEncoder, alike, pooled_runs, trusted_encoder
from isogloss.models.frozen_layers import Activations, Frozen, on_all_cores, pack, split_layers
from isogloss.models.token_store import TokenStore, by_length, spread_by_length
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel

PADDED_AT_ONCE, PACKED_AT_ONCE, AT_ONCE_ACCELERATED = 640, 8192, 16_384  # tokens
FAST_FROM, SAMPLE = 512, 24  # sentences


class TokenEncoder:
    """A model that embeds rows of a `TokenStore`, with gradients if they are enabled."""

    kind: ClassVar[str] = "a transformer"
    model: "SentenceTransformer"
    name: str

    @property
    def body(self) -> "PreTrainedModel":
        """The transformer."""
        body: PreTrainedModel | None = getattr(self.model[0], "auto_model", None)
        if body is None:
            raise ModelError(f"{self.name} is {self.kind} and has no transformer layers", hint="set training.train_layers = 0")
        return body

    @property
    def table(self) -> Tensor:
        """The token embedding matrix: one row per piece of the vocabulary."""
        weight: Tensor = self.body.get_input_embeddings().weight
        return weight

    @property
    def pooling(self) -> str:
        """The pooling mode: "mean", "cls", "max", or another of sentence-transformers' modes."""
        mode = next((module.pooling_mode for module in self.model if hasattr(module, "pooling_mode")), "")
        return mode if isinstance(mode, str) else "+".join(mode)

    @property
    def prompt(self) -> str:
        """The text that the model puts before every input by default."""
        return self.model.prompts.get(self.model.default_prompt_name or "", "") or ""

    @property
    def dimension(self) -> int:
        """Embedding dimension."""
        return embedding_dimension(self.model)

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        """Embeddings of a padded batch, with gradients if they are enabled."""
        vectors: Tensor = self.model(dict(features))["sentence_embedding"]
        return vectors

    def vectors_of(
        self,
        tokens: TokenStore,
        rows: IntArray | None = None,
        frozen: Frozen | None = None,
        on_progress: OnProgress = silent,
        stage: str = "student",
        dtype: torch.dtype = torch.float32,
    ) -> FloatArray:
        """Embeddings of tokenized sentences (of `rows`, if given), from the outputs of `frozen` layers if given.

        On a CPU many are computed in `dtype`, if a sample is the same up to rounding; on CUDA in half precision.
        """
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows)
        done = 0

        def finished(count: int) -> None:
            nonlocal done
            done += count
            on_progress(Step(stage, done, len(rows), "sentences"))

        self.model.eval()
        with torch.inference_mode():
            quickly = self._with_fast_encoder if frozen is None else self._from_outputs
            found = quickly(tokens, rows, frozen, finished, dtype) if len(rows) >= FAST_FROM else None
            return self._by_own_modules(tokens, rows, frozen, finished) if found is None else found

    def _from_outputs(
        self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None, done: Done, dtype: torch.dtype
    ) -> FloatArray | None:
        """Embeddings from the outputs of frozen layers without padding, on all cores; None if a sample would differ."""
        if frozen is None or not self.packs:
            return None
        split, activations = frozen
        layers = split_layers(self.body, slice(split.cut, None), tokens, dtype)
        if layers is None:
            return None

        def embed(chosen: IntArray) -> FloatArray:
            with torch.inference_mode():
                packed = pack(tokens, chosen, activations.packed(chosen))
                return np.asarray(self._after_pooling(pooled_runs(layers(packed), packed.runs, self.pooling)).numpy())

        sample = rows[spread_by_length(tokens.lengths_of(rows), SAMPLE)]
        if not alike(embed(sample), self._by_own_modules(tokens, sample, frozen, lambda _count: None), dtype):
            return None if dtype == torch.float32 else self._from_outputs(tokens, rows, frozen, done, torch.float32)
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        for places, embeddings in on_all_cores(embed, tokens, rows):
            vectors[places] = embeddings
            done(len(places))
        return vectors

    def _by_own_modules(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None, done: Done) -> FloatArray:
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        for places in by_length(tokens.lengths_of(rows), self._tokens_at_once):
            vectors[places] = self._chunk(tokens, rows[places], frozen).cpu().numpy()
            done(len(places))
        return vectors

    def _with_fast_encoder(
        self, tokens: TokenStore, rows: IntArray, _frozen: Frozen | None, done: Done, dtype: torch.dtype
    ) -> FloatArray | None:
        """Embeddings by a fast encoder, in half precision if that is exact enough; None if a sample would differ."""
        sample = rows[spread_by_length(tokens.lengths_of(rows), SAMPLE)]

        def agrees(fast: FastEncoder) -> bool:
            return fast.alike(self._by_own_modules(tokens, sample, None, lambda _count: None), fast.vectors(tokens, sample))

        dtype = torch.float16 if self.model.device.type == "cuda" else dtype
        fast = trusted_encoder(self.model, self.name, self.prompt, dtype, agrees)
        return None if fast is None else fast.vectors(tokens, rows, done)

    def batch(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None) -> Tensor:
        """Embeddings of some rows, with gradients if they are enabled; from the outputs of `frozen` layers if given.

        Rows are computed in chunks of similar length, which changes neither embeddings nor gradients.
        """
        chunks = list(by_length(tokens.lengths_of(rows), self._tokens_at_once))
        vectors = torch.cat([self._chunk(tokens, rows[chunk], frozen) for chunk in chunks])
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(chunks)] = np.arange(len(rows))
        return vectors[torch.from_numpy(back).to(vectors.device)]

    @property
    def _tokens_at_once(self) -> int:
        """Tokens in one forward pass: fewer if a CPU computes padding, more on an accelerator."""
        if self.body.device.type != "cpu":
            return AT_ONCE_ACCELERATED
        return PACKED_AT_ONCE if self.packs else PADDED_AT_ONCE

    def tokens_computed(self, lengths: IntArray) -> int:
        """Tokens that are computed for sentences of these lengths, including padding."""
        if self.packs:
            return int(lengths.sum())
        return sum(len(chunk) * int(lengths[chunk].max()) for chunk in by_length(lengths, self._tokens_at_once))

    @cached_property
    def packs(self) -> bool:
        """Whether sentences are computed end to end, without padding: on CUDA or a CPU, if the embeddings stay the same."""
        # Leaving the prompt's tokens out of the pooling needs a mask, hence padding.
        pools_prompt = not self.prompt or getattr(self.model[1], "include_prompt", True)
        if self.body.device.type not in ("cpu", "cuda") or self.pooling not in POOLINGS or not pools_prompt:
            return False
        return packs_exactly(self.body, self.table.shape[0], int(self.model.max_seq_length))

    def _chunk(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None) -> Tensor:
        """Embeddings of rows in order of length."""
        device = self.body.device
        if not self.packs:
            features = {name: value.to(device) for name, value in tokens.padded(rows).items()}
            with self._above(frozen, lambda activations: activations.padded(rows)):
                return self.forward(features)
        ids, lengths = tokens.gather(rows)
        runs = runs_of(lengths.tolist()) if device.type == "cpu" else ()
        packed = Packed.of(torch.from_numpy(ids).to(device).long(), torch.from_numpy(lengths).to(device).long(), runs)
        with packing(self.body), self._above(frozen, lambda activations: activations.packed(rows)[None]):
            states = hidden_states(self.body, packed)
        return self._after_pooling(pooled(states, packed.sentence, packed.starts, self.pooling))

    def _after_pooling(self, embeddings: Tensor) -> Tensor:
        for module in list(self.model)[2:]:
            embeddings = module({"sentence_embedding": embeddings})["sentence_embedding"]
        return embeddings

    def _above(self, frozen: Frozen | None, of_rows: Callable[[Activations], Tensor]) -> AbstractContextManager[None]:
        """Inside this block the transformer skips its frozen layers."""
        if frozen is None:
            return nullcontext()
        split, activations = frozen
        return split.upper(of_rows(activations).to(self.body.device))

"""A static student: the embedding of a text is the mean of its token embeddings, without any layers.

    v(text) = 1/n · Σ_t E[t]                    E: rows × dimension, sentence-transformers' StaticEmbedding

Hundreds of times cheaper than a transformer, and weaker. The initial table is random, or computed with an encoder as in
model2vec: a row is the embedding of that token alone, centered, projected by PCA, and weighted by the token's rarity (SIF:
a / (a + p), Arora et al. 2017). Then it is distilled like any student. There are no special tokens, and the tokenizer itself
truncates text; its limit is saved with it.
"""

import json
import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.checksums import load_array, save_array
from isogloss.errors import IsoglossError, ModelError
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import embedding_dimension, fingerprint
from isogloss.models.frozen_layers import Frozen
from isogloss.models.student import MAX_TOKENS, Student
from isogloss.models.token_store import TokenStore, described
from isogloss.models.vocabulary.pieces import read_pieces
from isogloss.models.vocabulary.resize import unigram_scores, with_rows
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

TOKEN_TABLES = "token-tables"  # in the cache folder
TABLE_TOKENS = 1 << 18  # tokens in one lookup
UNLIMITED = 8192  # tokens, where no limit is stored
TOKENS_AT_ONCE, TOKENS_AT_ONCE_ACCELERATED = 256, 4096
SIF = 1e-4  # model2vec's a: a token of this probability gets weight 1/2


class StaticStudent(Student):
    """A token table as a student. Start with `static_student(...)` or `Student.from_pretrained(name)`."""

    kind, kind_hint = "a static token table", 'set student.kind = "encoder", or make a table from it: static_student(...)'
    tokenizer_module, pooling, packs = "static", "mean", True
    _tokens_at_once = TABLE_TOKENS

    def _set_max_tokens(self, max_tokens: int | None) -> None:
        """The limit is that of the tokenizer: StaticEmbedding has none."""
        backend: Tokenizer = self.model[0].tokenizer
        stored = backend.truncation["max_length"] if backend.truncation else None
        if max_tokens is None:
            max_tokens = min(MAX_TOKENS, stored or MAX_TOKENS)
        backend.enable_truncation(max_tokens or stored or UNLIMITED)

    @property
    def max_tokens(self) -> int:
        """Where text is truncated."""
        return int(self.model[0].tokenizer.truncation["max_length"])

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer as a fast tokenizer of transformers that knows its unknown token."""
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast

        text = self.model[0].tokenizer.to_str()  # a copy: transformers changes its truncation and padding
        model = json.loads(text)["model"]
        unknown = model.get("unk_token") if model.get("unk_id") is None else model["vocab"][model["unk_id"]][0]
        return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), unk_token=unknown)

    @property
    def table(self) -> Tensor:
        """The token embedding matrix: one row per piece of the vocabulary."""
        weight: Tensor = self.model[0].embedding.weight
        return weight

    @property
    def fingerprint(self) -> str:
        """Identifies the current weights and the whole vocabulary."""
        return content_hash(super().fingerprint, self.model[0].tokenizer.to_str())

    def add_bridge(self, bridge: Bridge, normalize: bool) -> None:
        """Fold the bridge into the table: 1/n · Σ (W E[t] + b) = W (1/n · Σ E[t]) + b. Empty text stays zero.

        If other modules follow the table, the bridge is appended as a layer, as for a transformer.
        """
        if len(self.model) > 1 or bridge.weight.shape[1] != self.dimension:
            super().add_bridge(bridge, normalize)
            return
        weight, bias = (torch.from_numpy(part.copy()).to(self.table) for part in (bridge.weight, bridge.bias))
        self.set_table(self.table.detach() @ weight.T + bias)
        if normalize:
            self.add_normalization()
        self.model.eval()

    def cut_columns(self, dimension: int) -> None:
        """Keep the first columns of the table."""
        self.set_table(self.table.detach()[:, :dimension].clone())

    def batch(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None = None) -> Tensor:
        """Embeddings of some rows, with gradients if they are enabled; that of an empty sentence is zero."""
        ids, lengths = tokens.gather(rows)
        features = {"input_ids": ids.astype(np.int64), "offsets": np.cumsum(lengths) - lengths}
        return self.forward({name: torch.from_numpy(value).to(self.table.device) for name, value in features.items()})

    _chunk = batch

    def _set_vocabulary(self, tokenizer: "PreTrainedTokenizerFast", table: Tensor) -> None:
        backend: Tokenizer = tokenizer.backend_tokenizer
        backend.no_padding()
        backend.enable_truncation(self.max_tokens)
        self.model[0].tokenizer = backend
        self.__dict__.pop("tokenizer", None)  # cached
        self.set_table(table)

    def set_table(self, table: Tensor) -> None:
        """Replace the table, in place."""
        first = self.model[0]
        first.embedding = nn.EmbeddingBag.from_pretrained(table, freeze=False)
        first.num_embeddings, first.embedding_dim = table.shape


def static_student(
    tokenizer: "PreTrainedTokenizerFast",
    dimension: int,
    encoder: "SentenceTransformer | None" = None,
    sif: float = SIF,
    name: str = "static",
    prompt: str = "",
    max_tokens: int = 128,
    seed: int = 17,
    on_progress: OnProgress = silent,
    cache: Path | None = None,
) -> StaticStudent:
    """A token table over the tokenizer's pieces, from the encoder's embeddings of the tokens, or random without one.

    `sif` = 0 gives all tokens the same weight. The tokenizer may be the encoder's own, a trimmed one, or any other. `cache` is
    a folder for the embeddings of the tokens, which take minutes to compute.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    rows = 1 + max(tokenizer.get_vocab().values())
    rows_with_text = np.array(sorted(read_pieces(tokenizer)), dtype=np.int64)  # special tokens stay zero
    table = np.zeros((rows, dimension), dtype=np.float32)
    if encoder is None:
        table[rows_with_text] = np.random.default_rng(seed).normal(size=(len(rows_with_text), dimension)) / np.sqrt(dimension)
    else:
        table[rows_with_text] = _principal(token_vectors(encoder, tokenizer, rows_with_text, on_progress, cache), dimension)
        table[rows_with_text] *= _rarity(tokenizer, rows_with_text, sif)[:, None] if sif else 1.0
    backend: Tokenizer = with_rows(tokenizer, np.arange(rows)).backend_tokenizer  # a copy
    backend.no_truncation()
    model = SentenceTransformer(modules=[StaticEmbedding(backend, embedding_weights=table)], device="cpu")
    return StaticStudent(model, name, prompt, max_tokens)


def token_vectors(
    encoder: "SentenceTransformer",
    tokenizer: "PreTrainedTokenizerFast",
    rows: IntArray,
    on_progress: OnProgress = silent,
    cache: Path | None = None,
) -> FloatArray:
    """The encoder's embedding of each token alone, between its special tokens, from the cache if possible.

    If the tokenizer is not the encoder's own, the text of each piece is encoded.
    """
    vectors = np.empty((len(rows), embedding_dimension(encoder)), dtype=np.float32)
    if cache is not None:
        named = fingerprint(encoder), described(tokenizer), encoder.device.type, rows.tobytes()
        path = cache / TOKEN_TABLES / f"{content_hash(*named)}.npy"
        kept = load_array(path)
        if kept is not None and kept.shape == vectors.shape:
            on_progress(Step("token table", len(rows), len(rows), "tokens", "reused from the cache"))
            return np.asarray(kept)
    encode = (_by_row if encoder.tokenizer.get_vocab() == tokenizer.get_vocab() else _by_text)(encoder, tokenizer)
    at_once = TOKENS_AT_ONCE if encoder.device.type == "cpu" else TOKENS_AT_ONCE_ACCELERATED
    for start in range(0, len(rows), at_once):
        vectors[start : start + at_once] = encode(rows[start : start + at_once])
        on_progress(Step("token table", min(start + at_once, len(rows)), len(rows), "tokens"))
    if cache is not None:
        try:
            save_array(path, vectors)
        except IsoglossError as error:  # the cache is optional
            logger.warning("the token table is not cached: %s", error.message)
    return vectors


def _by_row(encoder: "SentenceTransformer", tokenizer: "PreTrainedTokenizerFast") -> Callable[[IntArray], FloatArray]:
    example = tokenizer("a", return_special_tokens_mask=True, truncation=False, padding=False)
    ids, text = example["input_ids"], np.flatnonzero(np.array(example["special_tokens_mask"]) == 0)
    before, after = ids[: text[0]], ids[text[-1] + 1 :]

    def encode(rows: IntArray) -> FloatArray:
        ids = torch.tensor([[*before, int(row), *after] for row in rows], device=encoder.device)
        with torch.inference_mode():
            vectors: Tensor = encoder({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["sentence_embedding"]
        return np.asarray(vectors.float().cpu().numpy())

    return encode


def _by_text(encoder: "SentenceTransformer", tokenizer: "PreTrainedTokenizerFast") -> Callable[[IntArray], FloatArray]:
    pieces = read_pieces(tokenizer)
    return lambda rows: np.asarray(encoder.encode([pieces[int(row)].text for row in rows], prompt="", show_progress_bar=False))


def _principal(vectors: FloatArray, dimension: int) -> FloatArray:
    """PCA: centered rows, projected to the `dimension` directions of largest variance."""
    if dimension > vectors.shape[1]:
        raise ModelError(
            f"student.dimension = {dimension}, but the encoder's embeddings have {amount(vectors.shape[1], 'dimension')}",
            hint=f"set it to at most {vectors.shape[1]}, or to 0 for the encoder's own",
        )
    centered = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    directions: NDArray[np.float64] = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :dimension]
    largest = np.abs(directions).argmax(0)
    directions = directions * np.sign(directions[largest, np.arange(dimension)])  # the sign of an eigenvector is arbitrary
    projected: FloatArray = (centered @ directions).astype(np.float32)
    return projected


def _rarity(tokenizer: "PreTrainedTokenizerFast", rows: IntArray, sif: float) -> FloatArray:
    """SIF: a / (a + p). Unigram vocabularies have p; others are sorted by frequency, so p follows from Zipf's law."""
    scores = unigram_scores(tokenizer)
    probability: NDArray[np.float64]
    if scores is None:
        probability = 1.0 / np.arange(2, len(rows) + 2)
    else:
        piece_of = {row: piece for piece, row in tokenizer.get_vocab().items()}
        probability = np.exp(np.array([scores[piece_of[int(row)]] for row in rows]))
    probability /= probability.sum()
    weights: FloatArray = (sif / (sif + probability)).astype(np.float32)
    return weights

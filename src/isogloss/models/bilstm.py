"""LASER's encoder as a student: token embeddings, stacked BiLSTM layers, the largest value of each number over the sentence.

    x_t = E[token_t]                             320 numbers a piece
    h_t = [→LSTM(x)_t ; ←LSTM(x)_t]              five layers, 512 numbers each way
    v_i = max_t h_t,i                            over the sentence's own tokens: 1,024 numbers
                                                                             (Artetxe & Schwenk 2019, §3; sizes as there)

The three are sentence-transformers' own modules (WordEmbeddings, LSTM, Pooling), so plain `SentenceTransformer(path)` loads
what is saved, without any code of ours. Sentences are packed: a batch gives the vectors that each sentence has alone.

It starts at random, with a vocabulary from `joint_vocabulary`, and knows nothing until `training/tasks/translate.py` has taught
it. `student` is the same for transformers, `static` for token tables.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.errors import ModelError
from isogloss.models.fast_encode import FastEncoder
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.student import Student
from isogloss.models.token_store import TextTokenizer, TokenStore
from isogloss.storage import content_hash
from isogloss.types import IntArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

AT_ONCE, AT_ONCE_ACCELERATED = 8192, 65_536  # tokens in one forward pass
SPREAD = 0.1  # weights start anywhere between −0.1 and 0.1, as in the paper's own software


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSizes:
    """How large the encoder is; the defaults are the paper's. Its vectors have 2 · `hidden` numbers."""

    embedding: int = 320
    hidden: int = 512
    layers: int = 5
    dropout: float = 0.1  # between layers


class BiLstmTokenizer(TextTokenizer):
    """Tokenizes as WordEmbeddings does: what is beyond the longest sentence is cut off, its end mark with it."""

    @property
    def key(self) -> str:
        """Names everything that ids depend on."""
        return content_hash("word embeddings", super().key)

    def _rows(self, texts: list[str]) -> list[list[int]]:
        backend: Tokenizer = self.tokenizer.backend_tokenizer
        backend.no_padding()
        backend.no_truncation()
        return [encoding.ids[: self.max_tokens] for encoding in backend.encode_batch_fast(texts)]


class BiLstmStudent(Student):
    """A BiLSTM over token embeddings, max-pooled. Start with `bilstm_student(...)` or `BiLstmStudent.load(name)`."""

    def _refuse_other_kinds(self) -> None:
        kinds = [type(module).__name__ for module in self.model]
        if kinds[:3] != ["WordEmbeddings", "LSTM", "Pooling"]:
            raise ModelError(
                f"{self.name}: its modules are {', '.join(kinds)}, not those of a BiLSTM encoder",
                hint="Student.load is for transformers, StaticStudent.load for token tables",
            )

    @property
    def body(self) -> "PreTrainedModel":
        """There is none: whoever asks wants a transformer's layers."""
        raise ModelError(f"{self.name} is a BiLSTM and has no transformer inside", hint="train it whole")

    @property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer inside."""
        tokenizer: PreTrainedTokenizerFast = self.model[0].tokenizer.tokenizer
        return tokenizer

    @property
    def text_tokenizer(self) -> BiLstmTokenizer:
        """What turns text into rows, as the model does it."""
        return BiLstmTokenizer(self.tokenizer, int(self.model.max_seq_length), self.prompt)

    def tokenize(self, texts: "Sequence[str]") -> TokenStore:
        """Rows of `texts`, cut and prompted as the model does it."""
        ids, lengths = self.text_tokenizer(texts)
        return TokenStore(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), self.text_tokenizer.pad_id)

    @property
    def pooling(self) -> str:
        """How states become a sentence vector."""
        mode: str = self.model[2].pooling_mode
        return mode

    @property
    def table(self) -> Tensor:
        """The token table: a row for each piece of the vocabulary."""
        weight: Tensor = self.model[0].emb_layer.weight
        return weight

    @cached_property
    def packs(self) -> bool:
        """Always: padding is neither computed nor seen."""
        return True

    @property
    def _tokens_at_once(self) -> int:
        return AT_ONCE if self.table.device.type == "cpu" else AT_ONCE_ACCELERATED

    def _taken_apart(self, tokens: TokenStore, rows: IntArray) -> FastEncoder | None:
        """There is no faster way than its own modules."""
        return None

    def _chunk(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        features = tokens.padded(rows)
        lengths = features["attention_mask"].sum(1)  # stays on the CPU, where packing wants it
        features = {name: value.to(self.table.device) for name, value in features.items()}
        return self.forward(features | {"sentence_lengths": lengths})

    def _keep_rows(self, keep: IntArray) -> None:
        raise ModelError(
            f"{self.name}: its vocabulary was learnt from its own text and is not trimmed", hint="learn a smaller one instead"
        )


def bilstm_student(
    tokenizer: "PreTrainedTokenizerFast",
    sizes: EncoderSizes | None = None,
    name: str = "laser",
    max_tokens: int = 128,
    seed: int = 17,
) -> BiLstmStudent:
    """An untrained encoder over the tokenizer's pieces; row 0 must be padding (see `joint_vocabulary`)."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings

    sizes = sizes or EncoderSizes()
    if tokenizer.pad_token_id != 0:
        raise ModelError(
            f"the vocabulary's padding is row {tokenizer.pad_token_id}, and WordEmbeddings pads with row 0",
            hint="learn a vocabulary with learn_vocabulary",
        )
    random = torch.Generator().manual_seed(seed)
    rows = 1 + max(tokenizer.get_vocab().values())
    table = torch.empty(rows, sizes.embedding).uniform_(-SPREAD, SPREAD, generator=random)
    table[0] = 0
    words = WordEmbeddings(tokenizer, table, update_embeddings=True, max_seq_length=max_tokens)
    dropout = sizes.dropout if sizes.layers > 1 else 0.0  # there is nothing between the layers of one
    states = LSTM(sizes.embedding, sizes.hidden, sizes.layers, dropout, bidirectional=True)
    start_at_random(states, random)
    model: SentenceTransformer = SentenceTransformer(
        modules=[words, states, Pooling(2 * sizes.hidden, "max")], device="cpu"
    ).eval()
    return BiLstmStudent(model, name, max_tokens=max_tokens)


def start_at_random(module: nn.Module, random: torch.Generator) -> None:
    """Draw every weight and bias of a module anew, in the order of their names."""
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            parameter.uniform_(-SPREAD, SPREAD, generator=random)

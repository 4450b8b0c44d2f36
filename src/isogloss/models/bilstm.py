"""LASER's encoder as a student: token embeddings, stacked BiLSTM layers, max pooling.

    x_t = E[token_t]                             320 dimensions
    h_t = [→LSTM(x)_t ; ←LSTM(x)_t]              five layers, hidden size 512 per direction
    v_i = max_t h_t,i                            over the sentence's own tokens: 1,024 dimensions
                                                                             (Artetxe & Schwenk 2019, §3; sizes as there)

All three are modules of sentence-transformers (WordEmbeddings, LSTM, Pooling), so plain `SentenceTransformer(path)` loads the
saved model. The initial weights are random, the vocabulary comes from `vocabulary.learn`, and `training/tasks/translate.py`
trains the model.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from isogloss.errors import ModelError
from isogloss.models.frozen_layers import Frozen
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

AT_ONCE, AT_ONCE_ACCELERATED = 8192, 65_536  # tokens in one forward pass
SPREAD = 0.1  # initial weights are uniform between −0.1 and 0.1, as in the paper's software


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSizes:
    """Sizes of the encoder; the defaults are the paper's. Embeddings have 2 · `hidden` dimensions."""

    embedding: int = 320
    hidden: int = 512
    layers: int = 5
    dropout: float = 0.1  # between layers


class BiLstmStudent(Student):
    """A BiLSTM over token embeddings, max-pooled. Start with `bilstm_student(...)` or `Student.from_pretrained(name)`."""

    kind, kind_hint = "a BiLSTM", "load it with Student.from_pretrained, which loads all kinds of students"
    tokenizer_module, packs = "word embeddings", True

    @property
    def table(self) -> Tensor:
        """The token embedding matrix: one row per piece of the vocabulary."""
        weight: Tensor = self.model[0].emb_layer.weight
        return weight

    @property
    def _tokens_at_once(self) -> int:
        return AT_ONCE if self.table.device.type == "cpu" else AT_ONCE_ACCELERATED

    def _chunk(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None) -> Tensor:
        features = tokens.padded(rows)
        lengths = features["attention_mask"].sum(1)  # torch's packing needs it on the CPU
        features = {name: value.to(self.table.device) for name, value in features.items()}
        return self.forward(features | {"sentence_lengths": lengths})

    def _set_vocabulary(self, tokenizer: "PreTrainedTokenizerFast", table: Tensor) -> None:
        raise ModelError(f"{self.name}: a learned vocabulary cannot be trimmed", hint="learn another one instead")


def bilstm_student(
    tokenizer: "PreTrainedTokenizerFast",
    sizes: EncoderSizes | None = None,
    name: str = "laser",
    max_tokens: int = 128,
    seed: int = 17,
) -> BiLstmStudent:
    """An untrained encoder over the tokenizer's pieces; row 0 must be padding (see `vocabulary.learn`)."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings

    sizes = sizes or EncoderSizes()
    if tokenizer.pad_token_id != 0:
        raise ModelError(
            f"the vocabulary's padding is row {tokenizer.pad_token_id}, but WordEmbeddings pads with row 0",
            hint="learn a vocabulary with learn_vocabulary",
        )
    random = torch.Generator().manual_seed(seed)
    rows = 1 + max(tokenizer.get_vocab().values())
    table = torch.empty(rows, sizes.embedding).uniform_(-SPREAD, SPREAD, generator=random)
    table[0] = 0
    words = WordEmbeddings(tokenizer, table, update_embeddings=True, max_seq_length=max_tokens)
    dropout = sizes.dropout if sizes.layers > 1 else 0.0  # with one layer there is nothing between layers
    states = LSTM(sizes.embedding, sizes.hidden, sizes.layers, dropout, bidirectional=True)
    start_at_random(states, random)
    model = SentenceTransformer(modules=[words, states, Pooling(2 * sizes.hidden, "max")], device="cpu")
    return BiLstmStudent(model.eval(), name, max_tokens=max_tokens)


def start_at_random(module: nn.Module, random: torch.Generator) -> None:
    """Initialize every weight and bias of a module, in the order of their names."""
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            parameter.uniform_(-SPREAD, SPREAD, generator=random)

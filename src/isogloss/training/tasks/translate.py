"""LASER's task: a sentence goes into one vector, and a decoder writes its translation from that vector alone.

The decoder is an LSTM (one layer of 2,048 in the paper) that sees the vector at every step; h and c begin as linear maps of it:

    (h_0, c_0) = A v + a
    input_t    = [ D[y_t−1] ; v ; l ]        D: the decoder's own table over the same vocabulary, l: the target language
    state_t    = LSTM(input_t)               p(y_t) = softmax(W state_t + b)                     `losses/translation.py`

y_0 is </s>, the mark that also ends every sentence. There is no attention: all that the decoder knows of the sentence is in v.
The encoder does not know which language it reads; the decoder knows which one to write (Artetxe & Schwenk 2019, §3).

There are two target languages, as in the paper: with one alone, its own sentences would have nothing to be translated into.
One must be the pairs' source language (English, say), the other (Spanish) any of their languages. Of pairs (s, t), s English,
t in a language L, the examples are, each once per epoch:

    t → s  into English          for every pair
    s → t  into Spanish          for every pair with L = Spanish
    t → u  into Spanish          for every pair with L ≠ Spanish whose s also has Spanish translations: one of them in turn: u

So each sentence is translated into both targets if the data has both, a sentence of a target language into the other one.
English sentences without a Spanish translation are only written, never read. Pairs whose two sides are the same text are left
out. If the data has pairs with English alone, that is xx → en, es → en and en → es.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from isogloss.kernels.padded_lstm import bidirectional, max_pooled
from isogloss.losses.translation import translation
from isogloss.models.bilstm import start_at_random
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.training.dev_set import DevScore, DevSet
from isogloss.training.engines.base import TokenCount
from isogloss.training.selection import NOTHING_COUNTED, SelectionScore
from isogloss.training.tasks.protocol import Tensors
from isogloss.types import IntArray

PIVOT, SECOND = 0, 1  # the target languages: that of the pairs' source side, and the other one
DEV_AT_ONCE = 128  # examples
ROUND = 16  # tokens: lengths of fixed shapes are multiples of it
WORDS_ROUND = 8  # words per example: the words to write in a fixed shape are a multiple of it


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSizes:
    """How large the decoder is; the defaults are the paper's."""

    embedding: int = 320
    hidden: int = 2048
    layers: int = 1
    language: int = 32
    dropout: float = 0.1  # of what goes into it, between its layers, and of its states


class Decoder(nn.Module):
    """Writes a sentence from a vector. It is trained beside the encoder and not part of the saved model."""

    def __init__(
        self, rows: int, dimension: int, languages: int, padding: int, sizes: DecoderSizes | None = None, seed: int = 17
    ) -> None:
        """`rows` is the size of the vocabulary, `dimension` that of the encoder's vectors, `languages` that of the targets."""
        super().__init__()
        self.sizes = sizes = sizes or DecoderSizes()
        self.embedding = nn.Embedding(rows, sizes.embedding, padding_idx=padding)
        self.language = nn.Embedding(languages, sizes.language)
        self.start = nn.Linear(dimension, 2 * sizes.layers * sizes.hidden)
        between = sizes.dropout if sizes.layers > 1 else 0.0
        width = sizes.embedding + dimension + sizes.language
        self.lstm = nn.LSTM(width, sizes.hidden, sizes.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(sizes.dropout)
        self.output = nn.Linear(sizes.hidden, rows)
        start_at_random(self, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            self.embedding.weight[padding] = 0

    def forward(self, vectors: Tensor, before: Tensor, lengths: Tensor, language: Tensor) -> PackedSequence:
        """The states after each of the words `before` (sentences × longest), `lengths` (on the CPU) of them real."""
        given, start = self._given(vectors, before, language)
        packed = pack_padded_sequence(given, lengths, batch_first=True, enforce_sorted=False)
        states: PackedSequence = self.lstm(packed, start)[0]
        return PackedSequence(self.dropout(states.data), states.batch_sizes, states.sorted_indices, states.unsorted_indices)

    def states_at(self, places: Tensor, vectors: Tensor, before: Tensor, language: Tensor) -> Tensor:
        """The same without packing: states (places × hidden) at flat places of sentences × longest."""
        states: Tensor = self.lstm(*self._given(vectors, before, language))[0]
        dropped: Tensor = self.dropout(states.flatten(0, 1)[places])
        return dropped

    def _given(self, vectors: Tensor, before: Tensor, language: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        sizes = self.sizes
        h, c = self.start(vectors).view(len(vectors), 2, sizes.layers, sizes.hidden).permute(1, 2, 0, 3).contiguous()
        constant = torch.cat([vectors, self.language(language)], 1)
        words = self.dropout(self.embedding(before))
        return torch.cat([words, constant[:, None].expand(-1, before.shape[1], -1)], 2), (h, c)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Sentences to translate, as rows of a `TokenStore`: what is read, what is written, and in which target language."""

    source: IntArray
    target: IntArray
    language: IntArray  # PIVOT or SECOND

    def __len__(self) -> int:
        return len(self.source)


def examples_of(pairs: PairRows, languages: Sequence[str], pivot: str, second: str) -> Examples:
    """The examples of some pairs; `languages` names their codes, `pivot` is the language of their source side."""
    code_of = {name: code for code, name in enumerate(languages)}
    spoken = np.asarray(pairs.language) != code_of.get(pivot, -1)
    pairs = pairs.where(spoken & (np.asarray(pairs.source) != np.asarray(pairs.target)))
    is_second = np.asarray(pairs.language) == code_of.get(second, -1)
    known = pairs.where(is_second)
    read, written = _through(pairs.where(~is_second), known)
    source = np.concatenate([pairs.target, known.source, read])
    target = np.concatenate([pairs.source, known.target, written])
    return Examples(source, target, np.repeat([PIVOT, SECOND, SECOND], [len(pairs), len(known), len(read)]))


def _through(others: PairRows, known: PairRows) -> tuple[IntArray, IntArray]:
    """The `others` whose source has a translation in `known`, and that translation; several take turns."""
    order = np.argsort(known.source, kind="stable")
    sources, written = known.source[order], known.target[order]
    first, last = (np.searchsorted(sources, others.source, side) for side in ("left", "right"))
    found = np.flatnonzero(last > first)
    chosen = first[found] + found % (last - first)[found]
    read = np.asarray(others.target[found])
    differs = read != written[chosen]
    return read[differs], written[chosen[differs]]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch: distinct sentences to encode, the place of each example's among them, and what is to be written."""

    rows: IntArray
    at: Tensor
    before: Tensor
    after: Tensor
    lengths: Tensor
    language: Tensor
    tokens: int


class Translation:
    """The task (see `tasks.Task`): examples, the encoder that reads them, and the decoder that writes them."""

    name = "translation"

    def __init__(
        self, student: Student, decoder: Decoder, tokens: TokenStore, examples: Examples, end: int, smoothing: float = 0.0
    ) -> None:
        """`end` is the row of </s>."""
        self.student, self.decoder, self.tokens, self.examples = student, decoder, tokens, examples
        self.head, self.end, self.smoothing = decoder, end, smoothing

    def __len__(self) -> int:
        return len(self.examples)

    def prepare(self, chosen: IntArray) -> Prepared:
        """A batch; a sentence that is translated twice is encoded once."""
        rows, at = np.unique(self.examples.source[chosen], return_inverse=True)
        written = self.tokens.padded(self.examples.target[chosen])
        after, lengths = written["input_ids"], written["attention_mask"].sum(1)
        before = torch.full_like(after, self.end)
        before[:, 1:] = after[:, :-1]
        language = torch.from_numpy(self.examples.language[chosen])
        tokens = int(lengths.sum()) + int(self.tokens.lengths_of(rows).sum())
        return Prepared(rows, torch.from_numpy(at), before, after, lengths, language, tokens)

    def loss(self, prepared: Prepared) -> Tensor:
        """Mean loss per word to be written."""
        vectors = self.student.batch(self.tokens, prepared.rows, None)
        device = vectors.device
        states = self.decoder(
            vectors[prepared.at.to(device)], prepared.before.to(device), prepared.lengths, prepared.language.to(device)
        )
        after = pack_padded_sequence(prepared.after, prepared.lengths, batch_first=True, enforce_sorted=False)
        padding = self.tokens.pad_id
        return translation(states.data, after.data.to(device), self.decoder.output, padding, self.smoothing)

    def prepare_fixed(self, chosen: IntArray, examples: int) -> tuple[dict[str, Tensor], TokenCount]:
        """The same batch in a fixed shape: `examples` rows on both sides, of lengths rounded up."""
        prepared = self.prepare(chosen)
        read = self.tokens.padded(prepared.rows)
        missing, spare, pad = examples - len(chosen), examples - len(prepared.rows), self.tokens.pad_id

        def padded(values: Tensor, rows: int, filling: int) -> Tensor:
            shape = (0, -values.shape[1] % ROUND, 0, rows) if values.ndim == 2 else (0, rows)
            return functional.pad(values, shape, value=filling)

        real = functional.pad(prepared.after, (0, -prepared.after.shape[1] % ROUND), value=pad)
        places = (real.flatten() != pad).nonzero()[:, 0]
        filling = -len(places) % (WORDS_ROUND * examples)
        tensors = {
            "read": padded(read["input_ids"], spare, pad),
            "lengths": padded(read["attention_mask"].sum(1), spare, 1),
            "at": padded(prepared.at, missing, 0),
            "before": padded(prepared.before, missing, pad),
            "places": functional.pad(places, (0, filling)),
            "after": functional.pad(real.flatten()[places], (0, filling), value=pad),
            "language": padded(prepared.language, missing, 0),
        }
        return tensors, TokenCount(prepared.tokens, tensors["read"].numel() + tensors["before"].numel())

    def loss_fixed(self, tensors: Tensors) -> Tensor:
        """As `loss`, over padded rows: no shape depends on a length. Scores are computed of real words alone."""
        words, states, _, *others = self.student.model
        lengths = tensors["lengths"]
        pooled = max_pooled(bidirectional(states.encoder, words.emb_layer(tensors["read"]), lengths), lengths)
        features = {"sentence_embedding": pooled}
        for module in others:
            features = module(features)
        vectors = features["sentence_embedding"][tensors["at"]]
        written = self.decoder.states_at(tensors["places"], vectors, tensors["before"], tensors["language"])
        return translation(written, tensors["after"], self.decoder.output, self.tokens.pad_id, self.smoothing)

    def weight(self, prepared: Prepared) -> float:
        """Words to be written."""
        return float(prepared.lengths.sum())

    def count(self, prepared: Prepared) -> TokenCount:
        """Tokens read and written; packed, none of them is padding."""
        return TokenCount(prepared.tokens, prepared.tokens)


@dataclass(frozen=True, slots=True)
class TranslationScore:
    """How many translations the student finds among the dev pairs, and the loss of writing them.

    `improved` says whether that loss is below the one before training. An untrained encoder finds some translations by names
    and numbers, at times more than after its first steps, and must not be kept for that.
    """

    found: DevScore
    loss: float
    improved: bool = True

    def selection_score(self, select: str) -> SelectionScore:
        """What is found; if that is within noise, the lower loss is better."""
        if select == "loss":
            return SelectionScore(NOTHING_COUNTED, -self.loss)
        translated = self.found.translated
        return SelectionScore(translated, -self.loss) if self.improved else SelectionScore(np.zeros_like(translated), -math.inf)

    def values(self) -> dict[str, float]:
        """For the metrics."""
        return {"dev_retrieval": self.found.retrieval, "dev_loss": self.loss}

    def note(self) -> str:
        """For the screen."""
        return f"dev {100 * self.found.retrieval:.1f} % found, loss {self.loss:.3f}"


class TranslationDev:
    """Dev pairs of a `Translation` task: nearest neighbors as in `dev_set.DevSet`, and the task's own loss.

    Create it before training begins, also if training resumes from a checkpoint.
    """

    def __init__(self, task: Translation, pairs: PairRows, examples: Examples) -> None:
        self.retrieval = DevSet(pairs, None)
        self.task = Translation(task.student, task.decoder, task.tokens, examples, task.end)  # without smoothing
        self.untrained = self._loss()

    def __len__(self) -> int:
        return len(self.retrieval)

    def score(self) -> TranslationScore:
        """Measure encoder and decoder as they are."""
        task = self.task
        found = self.retrieval.score(lambda rows: task.student.vectors_of(task.tokens, rows))
        loss = self._loss()
        return TranslationScore(found, loss, loss < self.untrained)

    def _loss(self) -> float:
        """Mean loss per word of the dev examples."""
        task, total, words = self.task, 0.0, 0
        for module in (task.student.model, task.decoder):
            module.eval()
        with torch.inference_mode():
            for start in range(0, len(task), DEV_AT_ONCE):
                batch = task.prepare(np.arange(start, min(start + DEV_AT_ONCE, len(task))))
                count = int(batch.lengths.sum())
                total, words = total + count * float(task.loss(batch)), words + count
        return total / max(words, 1)

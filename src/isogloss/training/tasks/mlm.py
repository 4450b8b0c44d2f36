"""Masked and translation language modeling as one task: LaBSE's stage before any sentence vector is trained.

Masking as in BERT (Devlin et al. 2019): of the n ordinary tokens of a sequence, max(1, round(0.15 n)) are chosen at random,
never special ones. Of these, 80 % become the mask token, 10 % another ordinary token drawn evenly, 10 % stay; all are to be
predicted. The choice is a function of the seed and the batch, so a sentence has other masks in each pass, and a resumed run
the same ones.

With pairs, a sentence and its translation are one sequence, with masks on both sides (XLM, Conneau & Lample 2019):

    XLM-R   <s> a a a </s> </s> b b b </s>          BERT   [CLS] a a a [SEP] b b b [SEP]
    place    0  1 2 3  4    0   1 2 3  4                     0   1 2 3  4    0 1 2  3

Positions restart with the second sentence, as in XLM, so that words and their translations have similar positions, and two
sentences of full length fit into the body. XLM's language embeddings are left out, as in LaBSE.

`losses/masked.py` is the loss; `MaskedHead` computes its logits and is not saved with the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from isogloss.errors import ModelError
from isogloss.kernels.packed import STRANGE, Packed, first_position, packing, runs_of
from isogloss.losses.masked import masked
from isogloss.models.loading import quiet_transformers
from isogloss.models.student import Student
from isogloss.models.token_store import Ids, TokenStore, by_length
from isogloss.training.batches import PairRows
from isogloss.training.engines.base import TokenCount
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SHARE, MASKED, SWAPPED = 0.15, 0.8, 0.1
MASK = "<mask>"  # for a vocabulary that has none
FEW_ROWS = 8  # of the table that a head is created with
AT_ONCE = 4096  # padded tokens in one forward pass


@dataclass(frozen=True, slots=True, eq=False)
class Masking:
    """How tokens are masked: the mask token, and which tokens may be masked or replace another one."""

    mask_id: int
    ordinary: IntArray  # ascending
    share: float = SHARE

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase") -> Self:
        """For a tokenizer that has a mask token (see `with_mask_token`)."""
        ids = np.unique(np.fromiter(tokenizer.get_vocab().values(), dtype=np.int64))
        return cls(int(tokenizer.mask_token_id), np.setdiff1d(ids, np.array(tokenizer.all_special_ids, dtype=np.int64)))

    def hide(self, ids: Ids, lengths: IntArray, random: np.random.Generator) -> tuple[Ids, IntArray]:
        """Sequences end to end with some tokens masked, and the places of those to predict, ascending."""
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        places = np.flatnonzero(np.isin(ids, self.ordinary))
        counts = np.bincount(sequence[places], minlength=len(lengths))
        wanted = np.where(counts > 0, np.maximum(1, np.rint(self.share * counts)), 0)
        # In random order within each sequence; the first ones of each are chosen.
        places = places[np.lexsort((random.random(len(places)), sequence[places]))]
        rank = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.sort(places[rank < wanted[sequence[places]]])
        fate = random.random(len(chosen))
        others = random.choice(self.ordinary, len(chosen))
        hidden = ids.copy()
        hidden[chosen[fate < MASKED]] = self.mask_id
        swapped = (fate >= MASKED) & (fate < MASKED + SWAPPED)
        hidden[chosen[swapped]] = others[swapped]
        return hidden, chosen


def with_mask_token(student: Student) -> Student:
    """The student with a mask token: its own, or a new row of the table, the mean of the others.

    A new one becomes part of the saved model. It only changes how text with a literal "<mask>" is tokenized.
    """
    tokenizer, table = student.tokenizer, student.table
    if tokenizer.mask_token_id is not None:
        return student
    tokenizer.add_special_tokens({"mask_token": MASK})
    row = int(tokenizer.convert_tokens_to_ids(MASK))
    if row >= len(table):
        padding = getattr(student.body.get_input_embeddings(), "padding_idx", None)
        fresh = nn.Embedding(row + 1, table.shape[1], padding_idx=padding, dtype=table.dtype, device=table.device)
        with torch.no_grad():
            fresh.weight[:] = table.mean(0)
            fresh.weight[: len(table)] = table
        student.body.set_input_embeddings(fresh)
        student.body.config.vocab_size = row + 1
    return student


class MaskedHead(nn.Module):
    """The head that transformers has for a body, over the student's own token table: from states to logits of all tokens.

    The table is the student's and no parameter of the head, so that it is trained and saved once.
    """

    def __init__(self, body: "PreTrainedModel", seed: int = 17) -> None:
        super().__init__()
        from transformers import AutoModelForMaskedLM

        pad = body.config.pad_token_id
        rows = max(FEW_ROWS, (pad or 0) + 1)  # small: its table is replaced
        config = type(body.config).from_dict(body.config.to_dict() | {"num_hidden_layers": 0, "vocab_size": rows})
        try:
            with quiet_transformers(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                whole = AutoModelForMaskedLM.from_config(config)
            setattr(whole, whole.base_model_prefix, _GivenStates())
            whole.set_output_embeddings(_TiedOutput(body))
        except STRANGE as error:
            raise ModelError(
                f"{type(body).__name__} has no head for masked language modeling ({error})",
                hint="leave masked language modeling out, or take BERT, XLM-R or a relative of theirs",
            ) from error
        self.whole = whole.float().to(body.device)

    def forward(self, states: Tensor) -> Tensor:
        """Logits (places × vocabulary) of hidden states (places × width)."""
        logits: Tensor = self.whole(inputs_embeds=states[None]).logits[0]
        return logits


class _GivenStates(nn.Module):
    """Replaces the body in a masked-LM model: the states are computed already."""

    def forward(self, *_ids: Any, inputs_embeds: Tensor, **_others: Any) -> Any:  # noqa: ANN401 - as bodies have it
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class _TiedOutput(nn.Module):
    """The last layer of a head: the body's token table as it is now, and a bias of its own."""

    def __init__(self, body: "PreTrainedModel") -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(len(body.get_input_embeddings().weight)))
        self._table: Callable[[], Tensor] = lambda: body.get_input_embeddings().weight

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.linear(states, self._table(), self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """Sequences with masked tokens, end to end in order of length; `wanted` are the tokens at the places `at`."""

    ids: Tensor
    lengths: IntArray
    positions: Tensor
    at: Tensor
    wanted: Tensor


def _hidden(masking: Masking, sequences: Sequence[Ids], restarts: IntArray, random: np.random.Generator) -> Hidden:
    """Mask tokens of sequences, whose positions restart at `restarts` (0: they do not)."""
    sizes = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    order = np.argsort(sizes, kind="stable")
    lengths, restart = sizes[order], np.repeat(restarts[order], sizes[order])
    ids = np.concatenate([sequences[number] for number in order])
    within = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    positions = np.where(within >= restart, within - restart, within)
    hidden, at = masking.hide(ids, lengths, random)
    as_tensor = [torch.from_numpy(np.asarray(part, dtype=np.int64)) for part in (hidden, positions, at, ids[at])]
    return Hidden(as_tensor[0], lengths, *as_tensor[1:])


def token_states(student: Student, hidden: Hidden) -> Tensor:
    """The body's last states at the masked places (places × width)."""
    body, states, start = student.body, [], 0
    states_of = _packed if student.packs else _padded
    for chunk in by_length(hidden.lengths, AT_ONCE):  # in order of length already, so chunks follow one another
        lengths = hidden.lengths[chunk]
        end = start + int(lengths.sum())
        places = hidden.at[(hidden.at >= start) & (hidden.at < end)] - start
        positions = hidden.positions[start:end] + first_position(body)
        states.append(states_of(body, hidden.ids[start:end], lengths, positions)[places.to(body.device)])
        start = end
    return torch.cat(states)


def _packed(body: "PreTrainedModel", ids: Tensor, lengths: IntArray, positions: Tensor) -> Tensor:
    device = body.device
    runs = runs_of(lengths.tolist()) if device.type == "cpu" else ()
    packed = Packed.of(ids.to(device), torch.from_numpy(lengths).to(device), runs)
    with packing(body):
        states: Tensor = body(
            input_ids=packed.ids[None], position_ids=positions.to(device)[None], packed=packed
        ).last_hidden_state
    return states[0]


def _padded(body: "PreTrainedModel", ids: Tensor, lengths: IntArray, positions: Tensor) -> Tensor:
    def padded(flat: Tensor, value: int) -> Tensor:
        rows = list(torch.split(flat, lengths.tolist()))
        return pad_sequence(rows, batch_first=True, padding_value=value).to(body.device)

    mask = padded(torch.ones_like(ids), 0)
    states: Tensor = body(
        input_ids=padded(ids, int(body.config.pad_token_id or 0)),
        attention_mask=mask,
        position_ids=padded(positions, max(0, first_position(body) - 1)),
    ).last_hidden_state
    return states[mask.bool()]


class MaskedTask:
    """Masked language modeling over the sentences of a token store, or with `pairs` translation language modeling."""

    def __init__(
        self, student: Student, tokens: TokenStore, head: MaskedHead, pairs: PairRows | None = None, seed: int = 17
    ) -> None:
        self.student, self.tokens, self.head, self.pairs, self.seed = student, tokens, head, pairs, seed
        self.masking = Masking.of(student.tokenizer)
        self.template = None if pairs is None else Template.of(student.tokenizer)
        self.name = "mlm" if pairs is None else "tlm"

    def __len__(self) -> int:
        """Number of sentences or pairs."""
        return len(self.tokens if self.pairs is None else self.pairs)

    def prepare(self, chosen: IntArray) -> Hidden:
        """The chosen sentences or pairs with some tokens masked; the masks depend on the seed and on `chosen`."""
        if self.pairs is None or self.template is None:
            joined = [(self.tokens.row(int(row)), 0) for row in chosen]
        else:
            rows = zip(self.pairs.source[chosen].tolist(), self.pairs.target[chosen].tolist(), strict=True)
            joined = [self.template.join(self.tokens.row(source), self.tokens.row(target)) for source, target in rows]
        restarts = np.array([restart for _, restart in joined], dtype=np.int64)
        random = np.random.default_rng([self.seed, *np.asarray(chosen, dtype=np.int64).tolist()])
        return _hidden(self.masking, [ids for ids, _ in joined], restarts, random)

    def loss(self, prepared: Hidden) -> Tensor:
        """Mean cross-entropy of the masked tokens."""
        states = token_states(self.student, prepared)
        return masked(self.head(states), prepared.wanted.to(states.device))

    def weight(self, prepared: Hidden) -> float:
        """Masked tokens."""
        return len(prepared.wanted)

    def count(self, prepared: Hidden) -> TokenCount:
        """Tokens of the sequences."""
        tokens = int(prepared.lengths.sum())
        if self.student.packs:
            return TokenCount(tokens, tokens)
        chunks = by_length(prepared.lengths, AT_ONCE)
        return TokenCount(tokens, sum(len(chunk) * int(prepared.lengths[chunk].max()) for chunk in chunks))


@dataclass(frozen=True, slots=True)
class Template:
    """The special tokens that a tokenizer puts around one sentence, and around and between two."""

    single: tuple[tuple[int, ...], tuple[int, ...]]
    pair: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase") -> Self:
        """As the tokenizer shows it with a word on each side."""
        one, two = _specials(tokenizer, "a"), _specials(tokenizer, "a", "a")
        if len(one) != 2 or len(two) != 3 or not two[1]:
            raise ModelError(
                "the tokenizer puts no separator between two sentences", hint="leave translation language modeling out (--tlm)"
            )
        return cls((one[0], one[1]), (two[0], two[1], two[2]))

    def join(self, first: Ids, second: Ids) -> tuple[Ids, int]:
        """Two tokenized sentences as one sequence, and where the second begins.

        The first separator ends the first sentence; what follows belongs to the second.
        """
        before, after = map(len, self.single)
        bare = [row[before : len(row) - after] for row in (first, second)]
        begin, between, end = (np.array(part, dtype=np.int32) for part in self.pair)
        return np.concatenate([begin, bare[0], between, bare[1], end]), len(begin) + len(bare[0]) + 1


def _specials(tokenizer: "PreTrainedTokenizerBase", *texts: str) -> list[tuple[int, ...]]:
    """The special tokens before, between and after texts: one run more than there are texts."""
    encoded = tokenizer(*texts, return_special_tokens_mask=True)
    runs: list[tuple[int, ...]] = [()]
    for special, run in groupby(zip(encoded["special_tokens_mask"], encoded["input_ids"], strict=True), itemgetter(0)):
        if special:
            runs[-1] = tuple(token for _, token in run)
        else:
            runs.append(())
    return runs

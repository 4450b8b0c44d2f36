"""A student out of the teacher's own body: its layers as they are, under a multilingual vocabulary.

The body already gives the teacher's vectors for the teacher's rows, so a new row starts as near to those as its text
allows: the row of the same piece where the teacher has it, else the average of the rows by which the teacher would write
it, else a place among the teacher's rows like any other. Text whose pieces all exist on both sides and that both cut alike
gets exactly the teacher's vector before a single step; everything else is learnt. This is also the control that tells what
a multilingual body is worth (another one is random weights).

`pieces` says which rows write a piece; `trimming` should come first, on the tokenizer or on the finished student, since a
row the run cannot spell costs as much as any other.
"""

import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from isogloss.errors import ModelError
from isogloss.models.vocabulary.pieces import Piece, Speller, read_pieces, rows_like
from isogloss.models.vocabulary.resize import with_rows

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The same part in a sentence under other names: BERT's [CLS] opens it as RoBERTa's <s> does.
ROLES = (("cls_token", "bos_token"), ("sep_token", "eos_token"), ("pad_token",), ("unk_token",), ("mask_token",))


@dataclass(frozen=True, slots=True)
class NewRows:
    """Where the rows of the new token table came from; special tokens of the same role count as copied."""

    copied: int
    averaged: int
    unknown: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.copied + self.averaged + self.unknown

    def as_dict(self) -> dict[str, int]:
        """As it is written to run.json."""
        return asdict(self) | {"rows": self.rows}


@dataclass(frozen=True, slots=True, eq=False)
class TeacherBody:
    """The finished student model and what its token table was made of."""

    model: "SentenceTransformer"
    new_rows: NewRows


def with_vocabulary(
    teacher: "SentenceTransformer", tokenizer: "PreTrainedTokenizerFast", name: str = "the teacher", seed: int = 17
) -> TeacherBody:
    """A copy of the teacher that reads text by `tokenizer`: all its modules, and a token table for the new pieces.

    The tokenizer's own template puts the special tokens around a text. Neither the teacher nor the tokenizer is changed.
    """
    body: PreTrainedModel | None = getattr(teacher[0], "auto_model", None)
    if body is None:
        raise ModelError(
            f"{name}: its first module is {type(teacher[0]).__name__}, not a transformer body",
            hint='use an encoder as the teacher, or another student.kind than "teacher-body"',
        )
    old: Tensor = body.get_input_embeddings().weight.detach()
    tokenizer = _fitted(tokenizer, teacher, body)
    table, new_rows = _new_table(old, teacher.tokenizer, tokenizer, seed)
    student = _copy_without_table(teacher, body)
    new_body: PreTrainedModel = student[0].auto_model
    pad = tokenizer.pad_token_id
    fresh = nn.Embedding(len(table), table.shape[1], padding_idx=pad, dtype=old.dtype, device="meta")
    fresh.weight = nn.Parameter(table)
    new_body.set_input_embeddings(fresh)
    new_body.config.vocab_size, new_body.config.pad_token_id = len(table), pad
    for role in ("bos_token_id", "eos_token_id"):
        if getattr(new_body.config, role, None) is not None:
            setattr(new_body.config, role, getattr(tokenizer, role))
    student[0].processor = tokenizer
    return TeacherBody(student.eval(), new_rows)


def _fitted(
    tokenizer: "PreTrainedTokenizerFast", teacher: "SentenceTransformer", body: "PreTrainedModel"
) -> "PreTrainedTokenizerFast":
    """A copy of the tokenizer that cuts where the teacher does and pads with the row the body takes for padding."""
    pad = tokenizer.pad_token_id
    if pad is None:
        raise ModelError("the new tokenizer has no padding token", hint='add one: tokenizer.pad_token = "<pad>"')
    order = np.arange(1 + max(tokenizer.get_vocab().values()))
    wanted = _position_padding(body)
    if wanted is not None and wanted != pad:
        order[[wanted, pad]] = order[[pad, wanted]]
    fitted = with_rows(tokenizer, order)
    fitted.model_max_length = int(teacher.max_seq_length or tokenizer.model_max_length)
    fitted.model_input_names = ["input_ids", "attention_mask"]
    return fitted


def _position_padding(body: "PreTrainedModel") -> int | None:
    """The padding row from which RoBERTa, XLM-R and MPNet count positions; None for bodies that count from 0.

    They take position padding + 1 for the first token, so padding must keep its number: another one would shift every
    position, and MPNet would go back to its own on loading.
    """
    for name, module in body.named_modules():
        if isinstance(module, nn.Embedding) and "position" in name and module.padding_idx is not None:
            return int(module.padding_idx)
    return None


def _new_table(
    old: Tensor, teachers: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast", seed: int
) -> tuple[Tensor, NewRows]:
    """The new token table, and how its rows came about."""
    vocabulary = tokenizer.get_vocab()
    known = old[: 1 + max(teachers.get_vocab().values())]  # some tables are longer than their vocabulary
    pieces = read_pieces(tokenizer)
    nothing = Piece("", None)
    spelt = Speller(teachers).spell([pieces.get(row, nothing) for row in range(1 + max(vocabulary.values()))])
    table = rows_like(known, spelt, seed)
    same, averaged = spelt.same.copy(), spelt.known & ~spelt.same
    for row, source in _special_rows(teachers, tokenizer).items():
        table[row], same[row], averaged[row] = known[source], True, False
    return table, NewRows(int(same.sum()), int(averaged.sum()), int((~same & ~averaged).sum()))


def _special_rows(teachers: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast") -> dict[int, int]:
    """New row to teacher's row of the special tokens that play the same part, or that have the same name."""
    theirs = {str(token): row for row, token in teachers.added_tokens_decoder.items()}
    ours = {str(token): row for row, token in tokenizer.added_tokens_decoder.items()}
    found = {row: theirs[token] for token, row in ours.items() if token in theirs}
    for role in ROLES:
        source = next((row for row in _ids(teachers, role) if row is not None), None)
        if source is not None:
            found |= {row: source for row in _ids(tokenizer, role) if row is not None}
    return found


def _ids(tokenizer: "PreTrainedTokenizerFast", role: tuple[str, ...]) -> list[int | None]:
    return [getattr(tokenizer, f"{name}_id", None) for name in role]


def _copy_without_table(teacher: "SentenceTransformer", body: "PreTrainedModel") -> "SentenceTransformer":
    """A deep copy of the teacher in which the token table, which is replaced anyway, is still the teacher's own."""
    table = body.get_input_embeddings().weight
    student: SentenceTransformer = copy.deepcopy(teacher, {id(table): table})
    return student

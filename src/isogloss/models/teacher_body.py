"""A student with the teacher's own layers under a multilingual vocabulary.

A new row of the token table is the teacher's row of the same piece, else the average of the rows with which the teacher writes
that text, else random. Text that both vocabularies split into the same pieces gets the teacher's embedding before training.
Compared with this student, one sees how much a multilingual transformer contributes. Trim the vocabulary first: unused rows
take as much memory as used ones.
"""

import copy
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from isogloss.errors import ModelError
from isogloss.kernels.packed import first_position
from isogloss.models.vocabulary.pieces import NO_PIECE, Speller, read_pieces, rows_like
from isogloss.models.vocabulary.resize import set_token_table, with_rows

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The same role under different names: BERT's [CLS] and RoBERTa's <s> both start a sentence.
ROLES = (("cls_token", "bos_token"), ("sep_token", "eos_token"), ("pad_token",), ("unk_token",), ("mask_token",))


def with_vocabulary(
    teacher: "SentenceTransformer", tokenizer: "PreTrainedTokenizerFast", name: str = "the teacher", seed: int = 17
) -> "tuple[SentenceTransformer, dict[str, int]]":
    """A copy of the teacher with `tokenizer` and a new token table; and how many rows are copied, averaged and unknown.

    Special tokens of the same role count as copied. Neither argument is changed.
    """
    body: PreTrainedModel | None = getattr(teacher[0], "auto_model", None)
    if body is None:
        raise ModelError(
            f"{name}: its first module is {type(teacher[0]).__name__}, not a transformer",
            hint='use an encoder as the teacher, or another student.kind than "teacher-body"',
        )
    old: Tensor = body.get_input_embeddings().weight.detach()
    tokenizer = _fitted(tokenizer, teacher, body)
    table, new_rows = _new_table(old, teacher.tokenizer, tokenizer, seed)
    shared = body.get_input_embeddings().weight  # not copied: it is replaced anyway
    student: SentenceTransformer = copy.deepcopy(teacher, {id(shared): shared})
    new_body: PreTrainedModel = student[0].auto_model
    set_token_table(new_body, table, tokenizer.pad_token_id)
    for role in ("bos_token_id", "eos_token_id"):
        if getattr(new_body.config, role, None) is not None:
            setattr(new_body.config, role, getattr(tokenizer, role))
    student[0].processor = tokenizer
    return student.eval(), new_rows


def _fitted(
    tokenizer: "PreTrainedTokenizerFast", teacher: "SentenceTransformer", body: "PreTrainedModel"
) -> "PreTrainedTokenizerFast":
    """A copy of the tokenizer that truncates where the teacher does, with padding in the row the transformer expects."""
    pad = tokenizer.pad_token_id
    if pad is None:
        raise ModelError("the new tokenizer has no padding token", hint='add one: tokenizer.pad_token = "<pad>"')
    order = np.arange(1 + max(tokenizer.get_vocab().values()))
    # RoBERTa, XLM-R and MPNet give their first token position padding + 1: another padding row would shift every position.
    wanted = first_position(body) - 1
    if wanted not in (-1, pad):
        order[[wanted, pad]] = order[[pad, wanted]]
    fitted = with_rows(tokenizer, order)
    fitted.model_max_length = int(teacher.max_seq_length or tokenizer.model_max_length)
    fitted.model_input_names = ["input_ids", "attention_mask"]
    return fitted


def _new_table(
    old: Tensor, teachers: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast", seed: int
) -> tuple[Tensor, dict[str, int]]:
    """The new token table, and the number of its rows by origin."""
    known = old[: 1 + max(teachers.get_vocab().values())]  # some tables are longer than their vocabulary
    pieces, rows = read_pieces(tokenizer), 1 + max(tokenizer.get_vocab().values())
    spellings = Speller(teachers).spell([pieces.get(row, NO_PIECE) for row in range(rows)])
    table = rows_like(known, spellings, seed)
    same, averaged = spellings.same.copy(), spellings.known & ~spellings.same
    for row, source in _special_rows(teachers, tokenizer).items():
        table[row], same[row], averaged[row] = known[source], True, False
    kinds = {"copied": same, "averaged": averaged, "unknown": ~same & ~averaged}
    return table, {kind: int(chosen.sum()) for kind, chosen in kinds.items()}


def _special_rows(teachers: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast") -> dict[int, int]:
    """New row → teacher's row, for special tokens with the same role or the same name."""
    theirs, ours = ({str(token): row for row, token in each.added_tokens_decoder.items()} for each in (teachers, tokenizer))
    found = {row: theirs[token] for token, row in ours.items() if token in theirs}
    for role in ROLES:
        sources, rows = ([getattr(each, f"{name}_id", None) for name in role] for each in (teachers, tokenizer))
        source = next((row for row in sources if row is not None), None)
        if source is not None:
            found |= {row: source for row in rows if row is not None}
    return found

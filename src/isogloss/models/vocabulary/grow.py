"""Add the vocabulary pieces of a new language to a student that was trimmed without it.

    pieces = needed_pieces(full, student.tokenizer, {"sw": texts})     full: the tokenizer before trimming
    growth = student.grow(pieces, original_rows(full_table, full, pieces), old_texts)

Old rows keep their numbers and values; new rows follow them. A new row is that of the original model if it is given, else the
average of the rows that the student used for that text before. Text of the old languages may be tokenized differently:

- Unigram takes the segmentation with the best score. Only text that lost pieces to trimming can change. (A new piece with a
  lower score than all old ones would change the cost of unknown characters, but `trim` always keeps the lowest.)
- WordPiece takes the longest piece from the left, so a word changes if a new piece is longer than the old one there.

`Growth.changed` has the share of changed text per language.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import ne
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import ModelError
from isogloss.models.vocabulary.coverage import Texts, in_chunks, survey
from isogloss.models.vocabulary.pieces import NO_PIECE, Speller, read_pieces, rows_like
from isogloss.models.vocabulary.resize import NewPiece, pieces_of, token_rows, unigram_scores, with_pieces
from isogloss.models.vocabulary.trim import kept_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Growth:
    """Rows before and after, the origin of new rows, and the share of old text that is tokenized differently."""

    rows_before: int
    rows_after: int
    given: int
    averaged: int
    unknown: int
    changed: dict[str, float] = field(default_factory=dict)


def needed_pieces(
    full: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast", texts: Texts, how: str = "corpus"
) -> list[NewPiece]:
    """Missing pieces of the full vocabulary that new text uses ("corpus") or its alphabet can spell ("alphabet")."""
    existing, scores = tokenizer.get_vocab(), unigram_scores(full) or {}
    piece_of, control = dict(pieces_of(full)), set(full.all_special_ids) | set(full.added_tokens_decoder)
    wanted = (piece_of[row] for row in kept_rows(full, survey(full, texts), how).tolist() if row not in control)
    return [NewPiece(piece, scores.get(piece)) for piece in wanted if piece not in existing]


def original_rows(table: Tensor, full: "PreTrainedTokenizerFast", new_pieces: Sequence[NewPiece]) -> dict[str, Tensor]:
    """The original model's rows for these pieces."""
    row_of = full.get_vocab()
    return {piece: table[row_of[piece]].detach() for piece, _ in new_pieces if piece in row_of}


def grown_table(
    table: Tensor,
    tokenizer: "PreTrainedTokenizerFast",
    new_pieces: Sequence[NewPiece],
    given: Mapping[str, Tensor] | None = None,
    old_texts: Texts | None = None,
    seed: int = 17,
) -> "tuple[PreTrainedTokenizerFast, Tensor, Growth]":
    """A tokenizer with new pieces, a token table with rows for them, and what was done; nothing is changed in place.

    `given` has rows for some or all of the pieces; `old_texts` is text on which changed segmentations are counted.
    """
    known = set(tokenizer.get_vocab())
    for piece, _ in new_pieces:
        if piece in known:
            raise ModelError(f"the vocabulary has the piece {piece!r} already", hint="name each new piece once")
        known.add(piece)
    rows = 1 + max(tokenizer.get_vocab().values())  # a table may be longer than its vocabulary
    larger = with_pieces(tokenizer, new_pieces)
    pieces = read_pieces(larger)
    spellings = Speller(tokenizer).spell([pieces.get(rows + place, NO_PIECE) for place in range(len(new_pieces))])
    fresh = rows_like(table[:rows].detach(), spellings, seed)
    from_given = np.zeros(len(new_pieces), dtype=bool)
    for place, (piece, _) in enumerate(new_pieces):
        if given is not None and piece in given:
            fresh[place], from_given[place] = given[piece].to(fresh), True
    growth = Growth(
        rows_before=rows,
        rows_after=rows + len(new_pieces),
        given=int(from_given.sum()),
        averaged=int((spellings.known & ~from_given).sum()),
        unknown=int((~spellings.known & ~from_given).sum()),
        changed={} if old_texts is None else changed_segmentations(tokenizer, larger, old_texts),
    )
    return larger, torch.cat([table[:rows].detach(), fresh]), growth


def changed_segmentations(
    before: "PreTrainedTokenizerFast", after: "PreTrainedTokenizerFast", texts: Texts
) -> dict[str, float]:
    """Share of each language's texts that are tokenized differently. Old rows must have kept their numbers."""
    changed, seen = Counter[str](), Counter[str]()
    for language, chunk in in_chunks(texts):
        changed[language] += sum(map(ne, token_rows(before, chunk), token_rows(after, chunk)))
        seen[language] += len(chunk)
    return {language: changed[language] / max(count, 1) for language, count in sorted(seen.items())}

"""A vocabulary for one language more: rows for the pieces it needs, added to a student that was trimmed without it.

    pieces = needed_pieces(fuller, student.tokenizer, {"sw": texts})     fuller: the tokenizer before trimming
    growth = student.grow(pieces, original_rows(fuller_table, fuller, pieces), old_texts)

Old rows keep their numbers and values; new ones stand behind them. A new row is the original model's, where it is given,
else the average of the rows by which the student wrote that text until now: so its first vectors are near its last ones.

What happens to text of the old languages depends on the vocabulary's way to choose pieces:

- Unigram takes the segmentation of the best score. Scores come from the fuller vocabulary, so a text that the student cut
  as the fuller one does is cut so still: its segmentation was the best of all and new pieces cannot beat it. Only text
  that had lost pieces to trimming can change, towards the fuller segmentation. (A new piece of a lower score than all old
  ones would also change the price of unknown characters; `trimming` keeps the lowest one, so that does not happen to its
  students.)
- WordPiece takes the longest piece from the left, so any word changes in which a new piece is longer than the old one at
  the same place.

`Growth.changed` counts it on text of the old languages. `trimming` is the way down, `pieces` reads and writes pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import ModelError
from isogloss.models.vocabulary.coverage import TEXTS_AT_ONCE, Texts, survey
from isogloss.models.vocabulary.pieces import Piece, Speller, read_pieces, rows_like
from isogloss.models.vocabulary.resize import NewPiece, pieces_of, token_rows, unigram_scores, with_pieces
from isogloss.models.vocabulary.trim import kept_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Growth:
    """What growing did: rows before and after, where new ones came from, and what share of old text is cut otherwise now."""

    rows_before: int
    rows_after: int
    given: int
    averaged: int
    unknown: int
    changed: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As it is written to run.json."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The larger tokenizer and its token table, and what was done."""

    tokenizer: "PreTrainedTokenizerFast"
    table: Tensor
    growth: Growth


def needed_pieces(
    fuller: "PreTrainedTokenizerFast", tokenizer: "PreTrainedTokenizerFast", texts: Texts, how: str = "corpus"
) -> list[NewPiece]:
    """Pieces of the fuller vocabulary that new text uses ("corpus") or its alphabet can spell ("alphabet"), not there yet."""
    there, scores = tokenizer.get_vocab(), unigram_scores(fuller) or {}
    piece_of, control = dict(pieces_of(fuller)), set(fuller.all_special_ids) | set(fuller.added_tokens_decoder)
    wanted = (piece_of[row] for row in kept_rows(fuller, survey(fuller, texts), how).tolist() if row not in control)
    return [NewPiece(piece, scores.get(piece)) for piece in wanted if piece not in there]


def original_rows(table: Tensor, fuller: "PreTrainedTokenizerFast", new_pieces: Sequence[NewPiece]) -> dict[str, Tensor]:
    """The rows that the original model has for these pieces, by piece."""
    row_of = fuller.get_vocab()
    return {piece: table[row_of[piece]].detach() for piece, _ in new_pieces if piece in row_of}


def grow(
    body: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    new_pieces: Sequence[NewPiece],
    given: Mapping[str, Tensor] | None = None,
    old_texts: Texts | None = None,
    seed: int = 17,
) -> Grown:
    """Add rows for new pieces to the body's token table, in place; the tokenizer that speaks them is in what comes back.

    `given` has rows for some or all of the pieces; `old_texts` is text to count changed segmentations on.
    """
    old: Tensor = body.get_input_embeddings().weight
    grown = grown_table(old, tokenizer, new_pieces, given, old_texts, seed)
    rows, width = grown.table.shape
    fresh = torch.nn.Embedding(rows, width, padding_idx=tokenizer.pad_token_id, dtype=old.dtype, device="meta")
    fresh.weight = torch.nn.Parameter(grown.table, requires_grad=old.requires_grad)
    body.set_input_embeddings(fresh)
    body.config.vocab_size = rows
    return grown


def grown_table(
    table: Tensor,
    tokenizer: "PreTrainedTokenizerFast",
    new_pieces: Sequence[NewPiece],
    given: Mapping[str, Tensor] | None = None,
    old_texts: Texts | None = None,
    seed: int = 17,
) -> Grown:
    """The same on a token table alone: nothing is changed in place."""
    _refuse_known(tokenizer, new_pieces)
    rows = 1 + max(tokenizer.get_vocab().values())  # a table may be longer than its vocabulary; such rows were never used
    larger = with_pieces(tokenizer, new_pieces)
    read, nothing = read_pieces(larger), Piece("", None)
    spelt = Speller(tokenizer).spell([read.get(rows + place, nothing) for place in range(len(new_pieces))])
    fresh = rows_like(table[:rows].detach(), spelt, seed)
    known = spelt.known.copy()
    from_given = np.zeros(len(new_pieces), dtype=bool)
    for place, (piece, _) in enumerate(new_pieces):
        if given is not None and piece in given:
            fresh[place], from_given[place] = given[piece].to(fresh), True
    counted = Growth(
        rows_before=rows,
        rows_after=rows + len(new_pieces),
        given=int(from_given.sum()),
        averaged=int((known & ~from_given).sum()),
        unknown=int((~known & ~from_given).sum()),
        changed={} if old_texts is None else changed_segmentations(tokenizer, larger, old_texts),
    )
    return Grown(larger, torch.cat([table[:rows].detach(), fresh]), counted)


def changed_segmentations(
    before: "PreTrainedTokenizerFast", after: "PreTrainedTokenizerFast", texts: Texts
) -> dict[str, float]:
    """Share of each language's texts that are cut into other pieces than before. Rows must have kept their numbers."""
    changed: dict[str, int] = {}
    seen: dict[str, int] = {}
    for language, some in texts.items() if isinstance(texts, Mapping) else texts:
        for start in range(0, len(some), TEXTS_AT_ONCE):
            chunk = some[start : start + TEXTS_AT_ONCE]
            old, new = token_rows(before, chunk), token_rows(after, chunk)
            changed[language] = changed.get(language, 0) + sum(one != other for one, other in zip(old, new, strict=True))
        seen[language] = seen.get(language, 0) + len(some)
    return {language: changed.get(language, 0) / max(count, 1) for language, count in sorted(seen.items())}


def _refuse_known(tokenizer: "PreTrainedTokenizerFast", new_pieces: Sequence[NewPiece]) -> None:
    there = set(tokenizer.get_vocab())
    for piece, _ in new_pieces:
        if piece in there:
            raise ModelError(f"the vocabulary has the piece {piece!r} already", hint="name each new piece once")
        there.add(piece)

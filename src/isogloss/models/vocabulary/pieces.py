"""The text of a vocabulary piece, and how another tokenizer would write it.

"cat" at the start of a word is `▁cat` in SentencePiece, `Ġcat` in byte-level BPE and `cat` in WordPiece; inside a word it is
`cat`, `cat` and `##cat`. A `Piece` is the text without marks. A `Speller` finds the rows with which its tokenizer writes it:
the same piece if it exists, else those of the tokenized text. `teacher_body` and `grow` average them into new rows.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isogloss.models.vocabulary.resize import State, pieces_of, state_of
from isogloss.types import BoolArray, IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

SPACE_MARK = "▁"
NO_TEXT = re.compile(r"<0x[0-9A-Fa-f]{2}>|\[unused\d+\]")  # SentencePiece's single bytes, BERT's unused rows


class Piece(NamedTuple):
    """The text of a piece, and whether it begins a word; None if both are possible (a WordPiece comma)."""

    text: str
    begins: bool | None


NO_PIECE = Piece("", None)  # of a row without text


@dataclass(frozen=True, slots=True, eq=False)
class Spellings:
    """The rows that write each piece: piece i is `rows[offsets[i]:offsets[i + 1]]`, empty if it is unknown.

    `same` marks the pieces that the vocabulary has itself.
    """

    rows: IntArray
    offsets: IntArray
    same: BoolArray

    @property
    def known(self) -> BoolArray:
        """Which pieces are written with at least one row."""
        known: BoolArray = np.diff(self.offsets) > 0
        return known


def read_pieces(tokenizer: "PreTrainedTokenizerFast") -> dict[int, Piece]:
    """The pieces that stand for text, by row: no special or added tokens, no partial characters."""
    from tokenizers import decoders

    state = state_of(tokenizer)
    control = set(tokenizer.all_special_ids) | {token["id"] for token in state["added_tokens"]}
    named = [(row, piece) for row, piece in pieces_of(tokenizer) if row not in control and not NO_TEXT.fullmatch(piece)]
    prefix = _continuing_prefix(state)
    if prefix is not None:
        joins = _joiner(tokenizer)
        return {row: _read_wordpiece(piece, prefix, joins) for row, piece in named}
    if '"ByteLevel"' in json.dumps([state.get("pre_tokenizer"), state.get("decoder")]):
        decoder = decoders.ByteLevel()
        decoded = ((row, decoder.decode([piece])) for row, piece in named)
        texts = [(row, text) for row, text in decoded if "\N{REPLACEMENT CHARACTER}" not in text]
    else:
        texts = [(row, piece.replace(SPACE_MARK, " ")) for row, piece in named]
    return {row: Piece(text.strip(" "), text.startswith(" ")) for row, text in texts}


def _read_wordpiece(piece: str, prefix: str, joins: Callable[[str], bool]) -> Piece:
    if prefix and piece.startswith(prefix) and piece != prefix:
        return Piece(piece.removeprefix(prefix), False)
    return Piece(piece, True if joins(piece) else None)  # a comma is the same after a space and after a letter


def rows_like(table: Tensor, spellings: Spellings, seed: int) -> Tensor:
    """A new row for each piece: the average of the rows that write it.

    Unknown pieces get random rows with the mean and standard deviation of the table, so that training can distinguish them.
    """
    offsets = torch.from_numpy(spellings.offsets[:-1]).to(table.device)
    rows = torch.from_numpy(spellings.rows).to(table.device)
    new = torch.nn.functional.embedding_bag(rows, table, offsets, mode="mean")
    unknown = torch.from_numpy(np.flatnonzero(~spellings.known)).to(table.device)
    if len(unknown):
        noise = torch.randn((len(unknown), table.shape[1]), generator=torch.Generator().manual_seed(seed)).to(table)
        new[unknown] = table.mean(0) + noise * table.std(0)
    return new


class Speller:
    """Writes the pieces of other vocabularies with one tokenizer."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        state = state_of(tokenizer)
        self.continues = _continuing_prefix(state)
        self.normalize, self.joins = _normalizer(tokenizer), _joiner(tokenizer)
        before = state.get("pre_tokenizer")
        self.at_start = _backend(state | {"pre_tokenizer": _prefixing(before, True)})  # with a space before the text
        if self.continues is None:
            normalizer = _changed(state.get("normalizer"), lambda step: None if step["type"] == "Prepend" else step)
            without = {"pre_tokenizer": _prefixing(before, False), "normalizer": normalizer}
            self.inside = _backend(state | without)
        else:  # WordPiece's prefix is on the first piece too
            model, mark = state["model"], self.continues
            kept = {name: row for name, row in model["vocab"].items() if name.startswith(mark) or name == model["unk_token"]}
            first = {piece.removeprefix(mark): row for piece, row in kept.items()}
            self.inside = _backend(state | {"model": model | {"vocab": kept | first}})
        self.unknown = -1 if tokenizer.unk_token_id is None else int(tokenizer.unk_token_id)
        self.row_of = {
            (piece.text, bool(piece.begins) or (self.continues is not None and piece.begins is None)): row
            for row, piece in read_pieces(tokenizer).items()
        }

    def spell(self, pieces: Sequence[Piece]) -> Spellings:
        """The rows that write each piece; rows of unknown characters are left out."""
        rows: list[list[int]] = [[] for _ in pieces]
        same = np.zeros(len(pieces), dtype=bool)
        to_split: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
        for place, piece in enumerate(pieces):
            text = self.normalize(piece.text)
            places = self._places(text, piece.begins)
            row = next((self.row_of[text, begins] for begins in places if (text, begins) in self.row_of), None)
            if row is not None:
                rows[place], same[place] = [row], True
            elif text:
                to_split[places[0]].append((place, text))
        for begins, backend in ((True, self.at_start), (False, self.inside)):
            split = backend.encode_batch_fast([text for _, text in to_split[begins]], add_special_tokens=False)
            for (place, _), encoding in zip(to_split[begins], split, strict=True):
                rows[place] = [row for row in encoding.ids if row != self.unknown]
        offsets = np.concatenate([[0], np.cumsum([len(own) for own in rows])]).astype(np.int64)
        return Spellings(np.array([row for own in rows for row in own], dtype=np.int64), offsets, same)

    def _places(self, text: str, begins: bool | None) -> tuple[bool, ...]:
        """Whether the text starts a word (True) or is inside one (False), in the order to try."""
        if self.continues is not None:
            return (True,) if begins is not False or not self.joins(text) else (False,)
        return (False, True) if begins is None else (begins,)


def _continuing_prefix(state: State) -> str | None:
    """WordPiece's prefix of pieces inside a word; None for vocabularies that mark spaces."""
    model = state["model"]
    return str(model["continuing_subword_prefix"]) if model["type"] == "WordPiece" else None


def _normalizer(tokenizer: "PreTrainedTokenizerFast") -> Callable[[str], str]:
    """The tokenizer's normalization (lower case, Unicode form), without spaces around the text."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None:
        return lambda text: text.strip(" ")
    return lambda text: str(normalizer.normalize_str(text)).replace(SPACE_MARK, " ").strip(" ")


def _joiner(tokenizer: "PreTrainedTokenizerFast") -> Callable[[str], bool]:
    """Whether a text directly after a letter is in the same word: letters are, commas and Chinese characters are not."""
    normalize, splitter = _normalizer(tokenizer), tokenizer.backend_tokenizer.pre_tokenizer
    if splitter is None:
        return lambda text: True
    return lambda text: len(splitter.pre_tokenize_str(normalize("a" + text))) == 1


def _backend(state: State) -> "Tokenizer":
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(state | {"truncation": None, "padding": None, "post_processor": None}))


def _prefixing(part: State | None, wanted: bool) -> State | None:
    """The pre-tokenizer, with or without adding a space before the text."""
    settings: dict[str, State] = {"ByteLevel": {"add_prefix_space": wanted}}
    settings["Metaspace"] = {"prepend_scheme": "always" if wanted else "never"}
    return _changed(part, lambda step: step | settings.get(step["type"], {}))


def _changed(part: State | None, change: Callable[[State], State | None]) -> State | None:
    """A normalizer or pre-tokenizer with each step changed, or removed if `change` returns None."""
    if part is None:
        return None
    for steps in ("normalizers", "pretokenizers"):
        if steps in part:
            return part | {steps: [kept for inner in part[steps] if (kept := _changed(inner, change))]}
    return change(part)

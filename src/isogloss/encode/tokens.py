"""Tokenise once: sentences become one flat array of ids with offsets, and from then on a sentence is a row number.

Training and evaluation never touch a string again; a batch is cut out of the flat array and padded to its own longest row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from isogloss.types import IntArray

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

TOKENISE_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """Token ids of many sentences, end to end; sentence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: IntArray
    pad_id: int

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: "PreTrainedTokenizerBase", max_tokens: int, prompt: str = "") -> Self:
        """Tokenise `texts` with special tokens, cut at `max_tokens`."""
        parts: list[NDArray[np.int32]] = []
        lengths: list[int] = []
        for start in range(0, len(texts), TOKENISE_AT_ONCE):
            chunk = [prompt + text for text in texts[start : start + TOKENISE_AT_ONCE]]
            for row in tokenizer(chunk, truncation=True, max_length=max_tokens, return_attention_mask=False)["input_ids"]:
                parts.append(np.asarray(row, dtype=np.int32))
                lengths.append(len(row))
        ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        pad_id = tokenizer.pad_token_id
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), 0 if pad_id is None else int(pad_id))

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def row(self, index: int) -> NDArray[np.int32]:
        """The ids of one sentence."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def padded(self, rows: Sequence[int] | IntArray) -> "dict[str, torch.Tensor]":
        """The chosen sentences as `input_ids` and `attention_mask`, padded to the longest of them."""
        import torch

        width = int(max(self.lengths[row] for row in rows))
        ids = np.full((len(rows), width), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for place, row in enumerate(rows):
            tokens = self.row(int(row))
            ids[place, : len(tokens)] = tokens
            mask[place, : len(tokens)] = 1
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def by_length(lengths: IntArray, token_budget: int) -> Iterator[IntArray]:
    """Group rows of similar length into batches of at most `token_budget` padded tokens (one row at least)."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and int(lengths[order[stop]]) * (stop + 1 - start) <= token_budget:
            stop += 1
        yield order[start:stop]
        start = stop

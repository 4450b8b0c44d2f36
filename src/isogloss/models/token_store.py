"""Tokenize once: sentences become one flat array of ids with offsets, and from then on a sentence is a row number.

`TextTokenizer.store` tokenizes text in memory; `training/data/pair_dataset.py` writes any number of sentences to files.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from isogloss.memory import gc_paused
from isogloss.storage import content_hash
from isogloss.types import IntArray

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

TEXTS_AT_ONCE = 10_000

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class TextTokenizer:
    """A tokenizer with a model's prompt and truncation.

    `module` is the sentence-transformers module that reads the ids, if not a transformer: StaticEmbedding ("static") has no
    special tokens, and in WordEmbeddings ("word embeddings") truncation also removes the end token.

    After trimming, `trimmed_from` has the key of the tokenizer with the full vocabulary, and the rows that were kept. Text
    whose pieces were all kept has the same ids, renumbered, so it need not be tokenized again.
    """

    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int
    prompt: str = ""
    module: str = ""
    trimmed_from: tuple[str, IntArray] | None = None

    @property
    def pad_id(self) -> int:
        """The id that batches are padded with."""
        pad_id = self.tokenizer.pad_token_id
        return 0 if pad_id is None else int(pad_id)

    @property
    def key(self) -> str:
        """A hash of everything that ids depend on: equal keys mean equal ids."""
        tokenizer = self.tokenizer
        sides = [getattr(tokenizer, name, None) for name in ("truncation_side", "split_special_tokens", "pad_token_id")]
        key = content_hash(described(tokenizer), repr(sides), str(self.max_tokens), self.prompt)
        return content_hash(self.module, key) if self.module else key

    def is_same(self, other: "TextTokenizer") -> bool:
        """Whether it has the same tokenizer object, prompt and truncation."""
        settings = [(one.max_tokens, one.prompt, one.module) for one in (self, other)]
        return self.tokenizer is other.tokenizer and settings[0] == settings[1]

    def __call__(self, texts: Sequence[str]) -> tuple[Ids, IntArray]:
        """The ids of all texts, special tokens included, as one flat array, and the number of ids per text."""
        parts, lengths = [np.empty(0, dtype=np.int32)], []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            rows = self._rows([self.prompt + text for text in texts[start : start + TEXTS_AT_ONCE]])
            lengths += [len(row) for row in rows]
            parts.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(map(len, rows))))
        return np.concatenate(parts), np.array(lengths, dtype=np.int64)

    def store(self, texts: Sequence[str]) -> "TokenStore":
        """The ids of `texts` as a store in memory."""
        return TokenStore.of_lengths(*self(texts), self.pad_id)

    def _rows(self, texts: list[str]) -> list[list[int]]:
        """The ids of a chunk of texts.

        transformers' wrapper encodes the first text and thereby sets truncation in the Rust tokenizer, which encodes the
        others on all cores (unless TOKENIZERS_PARALLELISM is off), without the wrapper's overhead per row.
        """
        backend: Any = getattr(self.tokenizer, "backend_tokenizer", None)
        if self.module:
            backend.no_padding()
            backend.no_truncation()
            found = backend.encode_batch_fast(texts, add_special_tokens=self.module != "static")
            return [encoding.ids[: self.max_tokens] for encoding in found]
        fast = getattr(backend, "encode_batch_fast", None)
        by_wrapper = 1 if fast is not None and _passes_text_on(self.tokenizer) else len(texts)
        rows: list[list[int]] = self.tokenizer(
            texts[:by_wrapper], truncation=True, max_length=self.max_tokens, return_attention_mask=False
        )["input_ids"]
        if fast is not None and by_wrapper < len(texts):
            rows += [encoding.ids for encoding in fast(texts[by_wrapper:])]
        return rows


def described(tokenizer: Any) -> str:  # noqa: ANN401 - of transformers or of tokenizers
    """All that a tokenizer's ids depend on, as text; without truncation and padding, which are left over from the last call."""
    inner = getattr(tokenizer, "tokenizer", tokenizer)  # sentence-transformers' WordEmbeddings wraps it
    backend = getattr(inner, "backend_tokenizer", inner)
    if not hasattr(backend, "to_str"):
        return repr(tokenizer)
    with gc_paused():
        state = json.loads(backend.to_str())
    return json.dumps(state | {"truncation": None, "padding": None})


def _passes_text_on(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer passes text to the Rust tokenizer unchanged; a model's own class may override that."""
    own = [kind for kind in type(tokenizer).__mro__ if not kind.__module__.startswith("transformers.tokenization_")]
    return not any(way in vars(kind) for kind in own for way in ("__call__", "_encode_plus", "_batch_encode_plus"))


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """Token ids of many sentences, end to end; sentence i is `ids[offsets[i]:offsets[i + 1]]`.

    If the ids are those of a vocabulary that was trimmed since, `new_id` has the new number of each.
    """

    stored_ids: Ids
    offsets: IntArray
    pad_id: int
    new_id: Ids | None = None

    @classmethod
    def of_lengths(cls, ids: Ids, lengths: IntArray, pad_id: int) -> Self:
        """From ids end to end and the number of ids of each sentence."""
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pad_id)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of every sentence, computed at each call; for a few sentences use `lengths_of`."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: Sequence[int] | IntArray) -> IntArray:
        """Tokens of some sentences."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths: IntArray = self.offsets[rows + 1] - self.offsets[rows]
        return lengths

    @property
    def ids(self) -> Ids:
        """The ids of all sentences, end to end: many are better read in parts."""
        return self.ids_at(slice(None))

    def ids_at(self, places: "slice | IntArray") -> Ids:
        """Some of `ids`."""
        ids: Ids = self.stored_ids[places]
        return ids if self.new_id is None else self.new_id[ids]

    def renumbered(self, kept: IntArray, pad_id: int) -> "TokenStore":
        """The same sentences with the vocabulary of which only the rows `kept` are left."""
        new_id = np.full(int(kept[-1]) + 1, -1, dtype=np.int32)
        new_id[kept] = np.arange(len(kept))
        return replace(self, pad_id=pad_id, new_id=new_id)

    def row(self, index: int) -> Ids:
        """The ids of one sentence."""
        return self.ids_at(slice(self.offsets[index], self.offsets[index + 1]))

    def gather(self, rows: Sequence[int] | IntArray) -> tuple[Ids, IntArray]:
        """The ids of the chosen sentences, end to end, and how many each has."""
        lengths = self.lengths_of(rows)
        # Token k of the result is at k plus an offset that is constant within a sentence.
        places = np.repeat(self.offsets[np.asarray(rows, dtype=np.int64)] - (np.cumsum(lengths) - lengths), lengths)
        places += np.arange(len(places))
        return self.ids_at(places), lengths

    def padded(self, rows: Sequence[int] | IntArray) -> "dict[str, torch.Tensor]":
        """The chosen sentences as `input_ids` and `attention_mask`, padded to the longest of them."""
        import torch

        flat, lengths = self.gather(rows)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        ids[mask] = flat
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def raw_array(path: Path, kind: str, mapped: bool = True) -> NDArray[Any]:
    """A flat file of values as an array, mapped from disk or read; empty if the file is missing."""
    count = path.stat().st_size // np.dtype(kind).itemsize if path.is_file() else 0
    if not count:
        return np.empty(0, dtype=kind)  # an empty file cannot be mapped
    if mapped:
        return np.asarray(np.memmap(path, kind, "r", shape=(count,)))  # a plain array is faster to index than a memmap
    return np.fromfile(path, kind)


def by_length(lengths: IntArray, token_budget: int) -> Iterator[IntArray]:
    """Group rows of similar length into batches of at most `token_budget` padded tokens (one row at least)."""
    order = np.argsort(lengths, kind="stable")
    ascending = lengths[order]
    start = 0
    while start < len(order):
        most = max(1, token_budget // max(1, int(ascending[start])))
        padded = ascending[start : start + most] * np.arange(1, 1 + min(most, len(order) - start))
        stop = start + max(1, int(np.count_nonzero(padded <= token_budget)))
        yield order[start:stop]
        start = stop


def spread_by_length(lengths: IntArray, count: int) -> IntArray:
    """The places of `count` sentences from the shortest to the longest."""
    chosen: IntArray = np.argsort(lengths, kind="stable")[np.linspace(0, len(lengths) - 1, count).astype(int)]
    return chosen

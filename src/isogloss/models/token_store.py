"""Tokenize once: sentences become one flat array of ids with offsets, and from then on a sentence is a row number.

`TextTokenizer.store` tokenizes text in memory; `TokenWriter` writes any number of sentences to files that are memory-mapped.
Which row a sentence has is decided in `training/pair_dataset.py`.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from isogloss.checksums import head_digest
from isogloss.memory import gc_paused
from isogloss.storage import content_hash, explaining_disk, make_folder, read_json, write_json
from isogloss.types import IntArray

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

TEXTS_AT_ONCE = 10_000
SAVE_SECONDS = 10.0  # how much work a kill -9 may cost
IDS, OFFSETS, STATE = "ids.i32", "offsets.i64", "tokens.json"

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class TextTokenizer:
    """A tokenizer with a model's prompt and truncation.

    `module` is the sentence-transformers module that reads the ids, if not a transformer: StaticEmbedding ("static") has no
    special tokens, and in WordEmbeddings ("word embeddings") truncation also removes the end token.
    """

    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int
    prompt: str = ""
    module: str = ""

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
    """Token ids of many sentences, end to end; sentence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: Ids
    offsets: IntArray
    pad_id: int

    @classmethod
    def of_lengths(cls, ids: Ids, lengths: IntArray, pad_id: int) -> Self:
        """From ids end to end and the number of ids of each sentence."""
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pad_id)

    @classmethod
    def open(cls, folder: Path, mapped: bool = True) -> Self | None:
        """What a `TokenWriter` finished in `folder`, mapped from disk or read; None if it is missing or incomplete."""
        state = _state(folder)
        if not state.get("finished"):
            return None
        ids = raw_array(folder / IDS, "<i4", mapped)
        offsets = raw_array(folder / OFFSETS, "<i8", mapped)
        if len(offsets) != state["rows"] + 1 or len(ids) != offsets[-1]:
            return None
        return cls(ids, offsets, state["pad_id"])

    def __len__(self) -> int:
        """Number of sentences."""
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

    def row(self, index: int) -> Ids:
        """The ids of one sentence."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, rows: Sequence[int] | IntArray) -> tuple[Ids, IntArray]:
        """The ids of the chosen sentences, end to end, and how many each has."""
        lengths = self.lengths_of(rows)
        # Token k of the result is at k plus an offset that is constant within a sentence.
        places = np.repeat(self.offsets[np.asarray(rows, dtype=np.int64)] - (np.cumsum(lengths) - lengths), lengths)
        places += np.arange(len(places))
        return self.ids[places], lengths

    def padded(self, rows: Sequence[int] | IntArray) -> "dict[str, torch.Tensor]":
        """The chosen sentences as `input_ids` and `attention_mask`, padded to the longest of them."""
        import torch

        flat, lengths = self.gather(rows)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        ids[mask] = flat
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


class TokenWriter:
    """Tokenizes any number of sentences into a folder, chunk by chunk; after an interruption it continues.

        FOLDER/ids.i32, FOLDER/offsets.i64   the arrays of a `TokenStore`, as they grow
        FOLDER/tokens.json                   how much of them is safely on disk, checksums, and whether it is complete

    `rows` is the number of sentences already written: the caller continues with the next one.
    """

    def __init__(self, folder: Path, text_tokenizer: TextTokenizer) -> None:
        make_folder(folder)
        self.folder, self.text_tokenizer, self._key = folder, text_tokenizer, text_tokenizer.key
        state = _state(folder)
        self._digests = self._continued(state)
        known = bool(self._digests)
        self.rows: int = state["rows"] if known else 0
        self._tokens: int = state["tokens"] if known else 0
        with explaining_disk(folder):
            self._files = {IDS: _cut(folder / IDS, 4 * self._tokens), OFFSETS: _cut(folder / OFFSETS, 8 * (self.rows + known))}
            if not known:
                self._digests = {name: hashlib.sha256() for name in self._files}
                self._write(OFFSETS, bytes(8))
        self._saved = time.monotonic()

    def __enter__(self) -> Self:
        """The writer; its files are closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the files. Sentences that were not saved are tokenized again next time."""
        for handle in self._files.values():
            with suppress(OSError):  # a full disk has been reported already
                handle.close()

    def add(self, texts: Sequence[str]) -> None:
        """Tokenize more sentences."""
        ids, lengths = self.text_tokenizer(texts)
        with explaining_disk(self.folder):
            self._write(IDS, ids.astype("<i4").tobytes())
            self._write(OFFSETS, (self._tokens + np.cumsum(lengths)).astype("<i8").tobytes())
        self.rows, self._tokens = self.rows + len(texts), self._tokens + len(ids)
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self._save()

    def finish(self) -> None:
        """Mark the store as complete, so that `TokenStore.open` finds it."""
        self._save(finished=True)

    def _write(self, name: str, content: bytes) -> None:
        self._files[name].write(content)
        self._digests[name].update(content)

    def _save(self, finished: bool = False) -> None:
        with explaining_disk(self.folder):
            for handle in self._files.values():
                handle.flush()
                os.fsync(handle.fileno())
        state = {"key": self._key, "pad_id": self.text_tokenizer.pad_id, "rows": self.rows, "tokens": self._tokens}
        sums = {name: digest.hexdigest() for name, digest in self._digests.items()}
        write_json(self.folder / STATE, state | {"checksums": sums, "finished": finished})
        self._saved = time.monotonic()

    def _continued(self, state: dict[str, Any]) -> "dict[str, hashlib._Hash]":
        """The digests of the files, if the folder has an unfinished store of the same tokenizer; else none."""
        if state.get("key") != self._key or not all((self.folder / name).is_file() for name in (IDS, OFFSETS)):
            return {}
        sizes = {IDS: 4 * state["tokens"], OFFSETS: 8 * (state["rows"] + 1)}
        digests = {name: head_digest(self.folder / name, size) for name, size in sizes.items()}
        if {name: digest.hexdigest() for name, digest in digests.items()} != state["checksums"]:
            logger.warning("%s: the token ids are damaged; the text is tokenized again", self.folder)
            return {}
        return digests


def _state(folder: Path) -> dict[str, Any]:
    try:
        state = read_json(folder / STATE)
    except (OSError, ValueError, RecursionError):
        return {}
    types = {"key": str, "pad_id": int, "rows": int, "tokens": int, "checksums": dict, "finished": bool}
    valid = isinstance(state, dict) and all(type(state.get(name)) is kind for name, kind in types.items())
    return state if valid else {}


def _cut(path: Path, size: int) -> BinaryIO:
    """A file opened for appending after its first `size` bytes; the rest was never confirmed and is cut off."""
    handle = path.open("r+b" if path.exists() else "w+b")
    handle.truncate(size)
    handle.seek(size)
    return handle


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

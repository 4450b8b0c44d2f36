"""Vectors that were computed once are never computed again.

A vector is addressed by what made it (the encoder's fingerprint) and the text's own hash, so the cache serves every run,
language and experiment that uses the same teacher. Rows are fp16 in shards that are written whole or not at all:
interrupted work loses at most the shard in hand.
"""

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import ModelError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import cache_folder, load_array, replacing
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

KEY_BYTES = 16
SHARD_SECONDS = 10.0  # how much work a kill -9 may cost
CHUNK = 64

Compute = Callable[[Sequence[str]], FloatArray]


def default_folder() -> Path:
    """Where vectors are kept if nobody says otherwise."""
    return cache_folder()


def text_key(text: str) -> bytes:
    """The address of a text inside one encoder's folder."""
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


class VectorCache:
    """One encoder's vectors on disk."""

    def __init__(self, folder: Path, fingerprint: str, dimension: int) -> None:
        self.folder = folder / "vectors" / fingerprint
        self.record = np.dtype([("key", f"S{KEY_BYTES}"), ("vector", "<f2", (dimension,))])

    def embed(
        self, texts: Sequence[str], compute: Compute, on_progress: OnProgress = silent, stage: str = "teacher"
    ) -> tuple[FloatArray, int]:
        """Vectors of `texts` and how many of them were found; the others are computed and kept."""
        keys = np.array([text_key(text) for text in texts], dtype=f"S{KEY_BYTES}")
        known_keys, shards = self._index()
        missing = np.flatnonzero(~np.isin(keys, known_keys))
        _, first = np.unique(keys[missing], return_index=True)
        todo = missing[np.sort(first)]
        found = len(texts) - len(missing)
        if len(todo):
            shards += self._compute(texts, keys, todo, compute, on_progress, stage, found)
        else:
            on_progress(Step(stage, len(texts), len(texts), "sentences", "reused from the cache"))
        return self._gather(keys, shards), found

    def _index(self) -> tuple[NDArray[np.bytes_], list[NDArray[np.void]]]:
        shards = []
        for path in sorted(self.folder.glob("*.npy")):
            shard = load_array(path)
            if shard is not None and shard.dtype == self.record:
                shards.append(shard)
        keys = [np.asarray(shard["key"]) for shard in shards]
        return (np.concatenate(keys) if keys else np.empty(0, dtype=f"S{KEY_BYTES}")), shards

    def _compute(
        self,
        texts: Sequence[str],
        keys: NDArray[np.bytes_],
        todo: NDArray[np.int64],
        compute: Compute,
        on_progress: OnProgress,
        stage: str,
        found: int,
    ) -> list[NDArray[np.void]]:
        todo = todo[np.argsort([len(texts[row]) for row in todo], kind="stable")]  # alike lengths pad little
        note = f"{found} reused from the cache" if found else ""
        written: list[NDArray[np.void]] = []
        pending: list[NDArray[np.void]] = []
        began = time.monotonic()
        on_progress(Step(stage, 0, len(todo), "sentences", note))
        for start in range(0, len(todo), CHUNK):
            rows = todo[start : start + CHUNK]
            shard = np.empty(len(rows), dtype=self.record)
            shard["key"] = keys[rows]
            vectors = compute([texts[row] for row in rows])
            if np.abs(vectors).max(initial=0.0) > np.finfo(np.float16).max:
                raise ModelError("the vectors are too long for the cache's fp16", hint="normalise them, or embed without cache")
            shard["vector"] = vectors
            pending.append(shard)
            last = start + CHUNK >= len(todo)
            if last or time.monotonic() - began > SHARD_SECONDS:
                written.append(np.concatenate(pending))
                self._write(written[-1])
                pending, began = [], time.monotonic()
            on_progress(Step(stage, min(start + CHUNK, len(todo)), len(todo), "sentences", note))
        return written

    def _write(self, shard: NDArray[np.void]) -> None:
        with replacing(self.folder / f"{uuid.uuid4().hex}.npy") as temporary, temporary.open("wb") as handle:
            np.save(handle, shard)

    def _gather(self, keys: NDArray[np.bytes_], shards: list[NDArray[np.void]]) -> FloatArray:
        """Look every key up by binary search over all shards' sorted keys."""
        vectors = np.empty((len(keys), *self.record["vector"].shape), dtype=np.float32)
        for shard in shards:
            shard_keys = np.asarray(shard["key"])
            order = np.argsort(shard_keys)
            place = np.minimum(np.searchsorted(shard_keys[order], keys), len(order) - 1)
            hit = np.flatnonzero(shard_keys[order][place] == keys)
            vectors[hit] = shard["vector"][order[place[hit]]]
        return vectors

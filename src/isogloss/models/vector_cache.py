"""Embeddings on disk, found by content. `cached_encoder` encodes through it.

An embedding is addressed by the encoder's fingerprint and the hash of the text, so the cache serves every run, language and
experiment that uses the same encoder. Rows are float16 in shards that are written atomically: interrupted work loses at most
the shard in progress.

    CACHE/vectors/FINGERPRINT/*.rows   shards: rows of a key, a vector and a checksum of both, in the order computed
    CACHE/vectors/FINGERPRINT/index    the keys of most shards, sorted, and where each one's vector is

A row that does not match its checksum is computed again. The index only makes finding rows faster: it is memory-mapped, and
rebuilt if it is missing.
"""

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss import storage
from isogloss.checksums import row_checksums
from isogloss.errors import IsoglossError, ModelError
from isogloss.storage import TEMPORARY_MARK, atomic_write
from isogloss.types import BoolArray, FloatArray, IntArray

logger = logging.getLogger(__name__)

KEY_BYTES = 16
KEY = np.dtype(f"S{KEY_BYTES}")
ENTRY = np.dtype([("key", KEY), ("place", "<i8")])  # place: the shard's number in the upper 32 bits, the row in the lower
SHARD_SECONDS, SHARD_BYTES = 10.0, 64 * 2**20  # how much work a kill -9 may cost, and how much of it waits in memory
CUDA_CHUNK = 16_384  # sentences: enough to keep a GPU busy
VECTORS, SHARD, INDEX = "vectors", ".rows", "index"
NEW_ROWS, NEW_SHARDS = 200_000, 100  # how many may be in memory next to the index before they are merged into it
MERGED_AT_ONCE = 1 << 20
STRAY_SECONDS = 24 * 3600.0  # no shard takes a day to write

Keys = NDArray[np.bytes_]
Entries = NDArray[np.void]
Float16Rows = NDArray[np.float16]


def refuse_unwritable(folder: Path) -> None:
    """Raise, before any work, if nothing can be written to the cache `folder`."""
    try:
        storage.refuse_unwritable(folder / VECTORS / SHARD)
    except IsoglossError as error:
        raise IsoglossError(
            f"the embedding cache cannot be used: {error.message}",
            hint="make that folder writable, or choose another: set ISOGLOSS_CACHE=FOLDER, in a recipe output.cache",
        ) from error


def refuse_useless(folder: Path) -> None:
    """The same at the start of a run, but accept a read-only cache: it may already have everything."""
    if not (folder / VECTORS).is_dir():
        refuse_unwritable(folder)


def text_key(text: str) -> bytes:
    """The address of a text inside one encoder's folder.

    A 128-bit hash: the probability that two of ten million texts collide is about 10⁻²⁵.
    """
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def text_keys(texts: Iterable[str]) -> Keys:
    """The addresses of many texts."""
    return np.frombuffer(bytearray(b"".join([text_key(text) for text in texts])), dtype=KEY)


class VectorCache:
    """One encoder's embeddings on disk, float16 unless `dtype` says otherwise."""

    def __init__(self, folder: Path, fingerprint: str, dimension: int, dtype: str = "<f2") -> None:
        self.root = folder
        self.folder = folder / VECTORS / fingerprint
        self.record = np.dtype([("key", KEY), ("vector", dtype, (dimension,)), ("checksum", "<u8")])
        self._index: _Index | None = None

    def find(self, keys: Keys) -> tuple[BoolArray, Float16Rows]:
        """Which keys are known, and the vectors of those, in the order of the keys."""
        if self._index is None:
            self._index = _Index(self.folder, self.record)
        self._index.refresh()
        places = self._index.places(keys)
        known = np.zeros(len(keys), dtype=np.bool_)
        vectors = np.empty((len(keys), *self.record["vector"].shape), dtype=self.record["vector"].base)
        order = np.flatnonzero(places >= 0)
        order = order[np.argsort(places[order])]
        shard_of = places[order] >> 32
        for own in np.split(order, np.flatnonzero(np.diff(shard_of)) + 1) if len(order) else []:
            number = int(places[own[0]] >> 32)
            if number >= len(self._index.shards):
                continue
            path = self.folder / self._index.shards[number]
            shard = _rows_of(path, self.record)
            rows = places[own] & 0xFFFF_FFFF
            own, rows = own[rows < len(shard)], rows[rows < len(shard)]
            read = shard[rows]
            intact = read["checksum"] == _checksums(read)
            if not intact.all():
                _drop_damaged(path, shard)
            same = intact & (read["key"] == keys[own])  # a stale index costs time, never a wrong vector
            vectors[own[same]], known[own[same]] = read["vector"][same], True
        return known, vectors[known]

    @contextmanager
    def keeping(self) -> Iterator[Callable[[Keys, Float16Rows], None]]:
        """Yield a function that stores vectors under their keys: on disk every few seconds, and when the block ends.

        Raises at once if the cache is not writable, before anything is computed.
        """
        refuse_unwritable(self.root)
        pending: list[NDArray[np.void]] = []
        began = time.monotonic()

        def write() -> None:
            nonlocal began
            if pending:
                _write_shard(self.folder, np.concatenate(pending))
            pending.clear()
            began = time.monotonic()

        def keep(keys: Keys, vectors: Float16Rows) -> None:
            shard = np.empty(len(keys), dtype=self.record)
            shard["key"], shard["vector"] = keys, vectors
            shard["checksum"] = _checksums(shard)
            pending.append(shard)
            if time.monotonic() - began > SHARD_SECONDS or sum(part.nbytes for part in pending) > SHARD_BYTES:
                write()

        try:
            yield keep
        finally:
            write()


def _rows_of(path: Path, record: "np.dtype[np.void]") -> NDArray[np.void]:
    """The rows of a shard, memory-mapped; none if it is gone. There is no header: each row has its own checksum."""
    try:
        count = path.stat().st_size // record.itemsize
        return np.memmap(path, record, "r", shape=(count,)) if count else np.empty(0, dtype=record)
    except FileNotFoundError:
        return np.empty(0, dtype=record)


def _write_shard(folder: Path, rows: NDArray[np.void]) -> None:
    with atomic_write(folder / f"{uuid.uuid4().hex}{SHARD}") as temporary:
        temporary.write_bytes(np.ascontiguousarray(rows).data)


def _drop_damaged(path: Path, shard: NDArray[np.void]) -> None:
    """Replace a damaged shard by a new one with its intact rows."""
    intact = shard["checksum"] == _checksums(shard)
    logger.warning("%s is damaged; %d of its %d vectors are computed again", path, int((~intact).sum()), len(shard))
    with suppress(IsoglossError, OSError):  # a read-only cache keeps it
        if intact.any():
            _write_shard(path.parent, shard[intact])
        path.unlink(missing_ok=True)


def _checksums(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """The checksum of each row's key and vector."""
    return row_checksums(rows.view(np.uint8).reshape(len(rows), rows.itemsize)[:, :-8])


def longest_first(
    texts: Sequence[str],
    compute: Callable[[Sequence[str]], FloatArray],
    chunk: int,
    dtype: "np.dtype[np.floating] | type[np.float16]" = np.float16,
) -> Iterator[tuple[IntArray, Float16Rows]]:
    """Compute the vectors of `texts` in chunks of similar lengths: yields rows of `texts`, and their vectors.

    The longest come first, so that running out of memory shows at once and the time left is not underestimated. Chunks have
    at most `chunk` sentences, more on a GPU. They are equally large: continuing after some of them gives the same others.
    """
    import torch

    order = np.argsort([-len(text) for text in texts], kind="stable")
    most = max(chunk, CUDA_CHUNK) if torch.cuda.is_available() else chunk
    for rows in np.array_split(order, -(-len(order) // most)) if len(order) else []:
        vectors = compute([texts[row] for row in rows])
        if np.abs(vectors).max(initial=0.0) > np.finfo(dtype).max:
            raise ModelError("the embeddings are too large for float16", hint="normalize them, or embed without a cache")
        yield rows, vectors.astype(dtype)


class _Index:
    """Finds keys in all shards: through the memory-mapped index file, and in memory for shards that are not in it yet."""

    def __init__(self, folder: Path, record: "np.dtype[np.void]") -> None:
        self.folder, self.record, self._writable = folder, record, True
        self._start_from(*self._stored_index())
        for stray in folder.glob(f".*{TEMPORARY_MARK}*"):  # of processes that were killed; others may be writing now
            with suppress(OSError):
                if time.time() - stray.stat().st_mtime > STRAY_SECONDS:
                    stray.unlink()

    def _start_from(self, shards: list[str], entries: Entries) -> None:
        self.shards, self._stored = shards, entries
        self._merged, self._new = len(shards), np.empty(0, dtype=ENTRY)

    def places(self, keys: Keys) -> IntArray:
        """The shard and row of each key; −1 if no shard has it."""
        places = np.full(len(keys), -1, dtype=np.int64)
        for entries in (self._new, self._stored):
            if len(entries):
                at = np.minimum(np.searchsorted(entries["key"], keys), len(entries) - 1)
                places = np.where(entries["key"][at] == keys, entries["place"][at], places)
        return places

    def refresh(self) -> None:
        """Pick up shards that this or another process wrote since."""
        names = {path.name for path in self.folder.glob(f"*{SHARD}")}
        if not names >= set(self.shards):  # some are gone, and must not hide the same keys in others
            self._start_from([], np.empty(0, dtype=ENTRY))
        waiting = [self._new]
        for name in sorted(names - set(self.shards)):
            keys = _rows_of(self.folder / name, self.record)["key"]
            entries = np.empty(len(keys), dtype=ENTRY)
            entries["key"], entries["place"] = keys, (len(self.shards) << 32) | np.arange(len(keys))
            self.shards.append(name)
            waiting.append(entries)
            if sum(map(len, waiting)) >= NEW_ROWS:
                self._merge(_by_key(waiting))
                waiting = [self._new]
        self._new = _by_key(waiting) if len(waiting) > 1 else self._new
        if len(self.shards) - self._merged >= NEW_SHARDS:
            self._merge(self._new)

    def _merge(self, new: Entries) -> None:
        """Merge `new` into the index file, piece by piece; if the folder is read-only, keep it in memory."""
        self._new = new
        if not self._writable:
            return
        names, done = json.dumps(self.shards).encode(), 0
        try:
            with atomic_write(self.folder / INDEX) as temporary, temporary.open("wb") as handle:
                handle.write(len(names).to_bytes(8, "little") + names)
                for start in range(0, max(len(self._stored), 1), MERGED_AT_ONCE):
                    part = self._stored[start : start + MERGED_AT_ONCE]
                    last = start + len(part) == len(self._stored)
                    until = len(new) if last else int(np.searchsorted(new["key"], part["key"][-1], side="right"))
                    handle.write(_by_key([part, new[done:until]]).tobytes())
                    done = until
        except IsoglossError as error:
            self._writable = False
            logger.warning("the index of the embedding cache is not kept: %s", error.message)
            return
        self._start_from(*self._stored_index())

    def _stored_index(self) -> tuple[list[str], Entries]:
        """The shards and entries in the index file; nothing if it is missing or damaged.

        It is mapped once, header and all: another process may replace the file at any moment.
        """
        with suppress(OSError, ValueError, RecursionError):
            content = np.asarray(np.memmap(self.folder / INDEX, np.uint8, "r"))
            start = 8 + int.from_bytes(content[:8].tobytes(), "little")
            names = json.loads(content[8:start].tobytes())
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                return names, content[start:].view(ENTRY)
        return [], np.empty(0, dtype=ENTRY)


def _by_key(parts: Sequence[Entries]) -> Entries:
    entries = np.concatenate(parts)
    return entries[np.argsort(entries["key"], kind="stable")]

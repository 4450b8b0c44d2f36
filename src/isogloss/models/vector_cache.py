"""Vectors that were computed once are never computed again.

A vector is addressed by what made it (the encoder's fingerprint) and the text's own hash, so the cache serves every run,
language and experiment that uses the same teacher. Rows are fp16 in shards that are written whole or not at all:
interrupted work loses at most the shard in hand.

    CACHE/vectors/FINGERPRINT/*.rows   shards: rows of a key, a vector and a checksum of both, as they were computed
    CACHE/vectors/FINGERPRINT/index    the keys of most shards, sorted, and where each one's vector is

A row that does not fit its checksum is computed again. The index is only a faster way to the shards: it is mapped and
searched, never loaded, and made again if it is not there.
"""

import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.checksums import row_checksums
from isogloss.errors import IsoglossError, ModelError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import TEMPORARY_MARK, atomic_write, cache_folder, explaining_disk, make_folder
from isogloss.types import BoolArray, FloatArray, IntArray

logger = logging.getLogger(__name__)

KEY_BYTES = 16
KEY = np.dtype(f"S{KEY_BYTES}")
SHARD_SECONDS, SHARD_BYTES = 10.0, 64 * 2**20  # how much work a kill -9 may cost, and how much of it waits in memory
AT_ONCE, AT_ONCE_ON_CUDA = 256, 16_384  # sentences: what a kill may cost on a CPU, what a GPU needs to be kept busy
VECTORS, SHARD, INDEX = "vectors", ".rows", "index"
NEW_ROWS, NEW_SHARDS = 200_000, 100  # as many may be in memory beside the index before they go into it
MERGED_AT_ONCE = 1 << 20
STRAY_SECONDS = 24 * 3600.0  # no shard takes a day to write

Compute = Callable[[Sequence[str]], FloatArray]
Keys = NDArray[np.bytes_]
Float16Rows = NDArray[np.float16]


def default_folder() -> Path:
    """Where vectors are kept if nobody says otherwise."""
    return cache_folder()


def refuse_unwritable(folder: Path) -> None:
    """Say before the work that no vector can be kept in the cache `folder`, and how to name another."""
    trial = folder / VECTORS / f".trial{TEMPORARY_MARK}{uuid.uuid4().hex[:8]}"
    try:
        make_folder(trial.parent)
        with explaining_disk(trial.parent):
            trial.touch()
            trial.unlink()
    except IsoglossError as error:
        raise IsoglossError(
            f"the cache of vectors cannot be used: {error.message}",
            hint="make that folder writable, or choose another: set ISOGLOSS_CACHE=FOLDER, in a recipe output.cache",
        ) from error


def refuse_useless(folder: Path) -> None:
    """The same at the start of a run: a cache that has vectors may be all that is needed, writable or not."""
    if not (folder / VECTORS).is_dir():
        refuse_unwritable(folder)


def text_key(text: str) -> bytes:
    """The address of a text inside one encoder's folder.

    A hash of 128 bits: that any two of ten million texts share one, and so a vector, has a probability of about 10⁻²⁵.
    """
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def text_keys(texts: Iterable[str]) -> Keys:
    """The addresses of many texts."""
    return np.frombuffer(bytearray(b"".join([text_key(text) for text in texts])), dtype=KEY)


class VectorCache:
    """One encoder's vectors on disk."""

    def __init__(self, folder: Path, fingerprint: str, dimension: int) -> None:
        self.root = folder
        self.folder = folder / VECTORS / fingerprint
        self.record = np.dtype([("key", KEY), ("vector", "<f2", (dimension,)), ("checksum", "<u8")])
        self._index: _Index | None = None

    def embed(
        self, texts: Sequence[str], compute: Compute, on_progress: OnProgress = silent, stage: str = "teacher"
    ) -> tuple[FloatArray, int]:
        """Vectors of `texts` and how many of them were found; the others are computed and kept."""
        keys, first, place = np.unique(text_keys(texts), return_index=True, return_inverse=True)
        known, found = self.find(keys)
        vectors = np.empty((len(keys), *self.record["vector"].shape), dtype=np.float16)
        vectors[known] = found
        reused = int(known[place].sum())
        todo = np.sort(first[~known])
        if len(todo):
            note = f"{reused:,} reused from the cache" if reused else ""
            on_progress(Step(stage, 0, len(todo), "sentences", note))
            with self.keeping() as keep:
                done = 0
                for rows, computed in longest_first([texts[row] for row in todo], compute, AT_ONCE):
                    where = place[todo[rows]]
                    vectors[where] = computed
                    keep(keys[where], computed)
                    done += len(rows)
                    on_progress(Step(stage, done, len(todo), "sentences", note))
        else:
            on_progress(Step(stage, len(texts), len(texts), "sentences", "reused from the cache"))
        return vectors[place].astype(np.float32), reused

    def find(self, keys: Keys) -> tuple[BoolArray, Float16Rows]:
        """Which of the keys are known, and the vectors of those, in the order of the keys."""
        if self._index is None:
            _remove_strays(self.folder)
            self._index = _Index(self.folder, self.record)
        self._index.refresh()
        places = self._index.places(keys)
        known = np.zeros(len(keys), dtype=np.bool_)
        vectors = np.empty((len(keys), *self.record["vector"].shape), dtype=np.float16)
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
            same = intact & (read["key"] == keys[own])  # an index that does not fit its shards costs time, never a wrong vector
            vectors[own[same]], known[own[same]] = read["vector"][same], True
        return known, vectors[known]

    @contextmanager
    def keeping(self) -> Iterator[Callable[[Keys, Float16Rows], None]]:
        """Yield a function that keeps vectors under their keys: on disk every few seconds, and when the block ends.

        Refused at once where nothing can be written, before anything is computed.
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
            if time.monotonic() - began > SHARD_SECONDS or sum(one.nbytes for one in pending) > SHARD_BYTES:
                write()

        try:
            yield keep
        finally:
            write()


def _rows_of(path: Path, record: "np.dtype[np.void]") -> NDArray[np.void]:
    """The rows of a shard, mapped; none where it is gone. There is no header that could be damaged: each row is checked."""
    try:
        count = path.stat().st_size // record.itemsize
        return np.memmap(path, record, "r", shape=(count,)) if count else np.empty(0, dtype=record)
    except FileNotFoundError:
        return np.empty(0, dtype=record)


def _write_shard(folder: Path, rows: NDArray[np.void]) -> None:
    with atomic_write(folder / f"{uuid.uuid4().hex}{SHARD}") as temporary:
        temporary.write_bytes(np.ascontiguousarray(rows).data)


def _drop_damaged(path: Path, shard: NDArray[np.void]) -> None:
    """Put a shard's intact rows into a new one, and remove it: a damaged row would be found again and again."""
    intact = shard["checksum"] == _checksums(shard)
    logger.warning("%s is damaged; %d of its %d vectors are computed again", path, int((~intact).sum()), len(shard))
    with suppress(IsoglossError, OSError):  # in a cache that cannot be written, it stays
        if intact.any():
            _write_shard(path.parent, shard[intact])
        path.unlink(missing_ok=True)


def _checksums(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """The checksum of each row's key and vector."""
    return row_checksums(rows.view(np.uint8).reshape(len(rows), rows.itemsize)[:, :-8])


def longest_first(texts: Sequence[str], compute: Compute, at_once: int) -> Iterator[tuple[IntArray, Float16Rows]]:
    """Compute the vectors of `texts` in chunks of alike lengths: places among `texts`, and their vectors as fp16.

    The longest come first, so that a machine they do not fit is known at once, and the time left is not underestimated.
    Chunks have `at_once` sentences, more where there is a GPU.
    """
    import torch  # whoever computes vectors has it already; a cache that is only read does without

    at_once = AT_ONCE_ON_CUDA if torch.cuda.is_available() else at_once
    order = np.argsort([-len(text) for text in texts], kind="stable")
    for start in range(0, len(order), at_once):
        rows = order[start : start + at_once]
        vectors = compute([texts[row] for row in rows])
        if np.abs(vectors).max(initial=0.0) > np.finfo(np.float16).max:
            raise ModelError("the vectors are too long to be kept as fp16", hint="normalize them, or embed without cache")
        yield rows, vectors.astype(np.float16)


@dataclass(slots=True, eq=False)
class _Sorted:
    """Sorted keys, and for each the number of its shard and its row there, in one number."""

    keys: Keys
    places: IntArray

    @classmethod
    def empty(cls) -> "_Sorted":
        return cls(np.empty(0, dtype=KEY), np.empty(0, dtype=np.int64))

    def find(self, keys: Keys) -> IntArray:
        """The place of each key; −1 where it is not known."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.places[at], -1)


class _Index:
    """Finds keys among all shards: in the index file, mapped, and in memory for the shards that are not in it yet."""

    def __init__(self, folder: Path, record: "np.dtype[np.void]") -> None:
        self.folder, self.record, self._writable = folder, record, True
        self.shards, self._kept = self._open()
        self._merged, self._new = len(self.shards), _Sorted.empty()

    def places(self, keys: Keys) -> IntArray:
        """The shard and row of each key, −1 for those that no shard has."""
        kept = self._kept.find(keys)
        return np.where(kept >= 0, kept, self._new.find(keys))

    def refresh(self) -> None:
        """Take in shards that were written since, by whomever."""
        names = {path.name for path in self.folder.glob(f"*{SHARD}")}
        if not names >= set(self.shards):  # some are gone: what is known of them must not hide the same keys elsewhere
            self.shards, self._kept, self._new, self._merged = [], _Sorted.empty(), _Sorted.empty(), 0
        waiting = [self._new]
        for name in sorted(names - set(self.shards)):
            waiting.append(self._read(name))
            if sum(len(one.keys) for one in waiting) >= NEW_ROWS:
                self._merge(_joined(waiting))
                waiting = [self._new]
        self._new = _joined(waiting) if len(waiting) > 1 else self._new
        if len(self.shards) - self._merged >= NEW_SHARDS:
            self._merge(self._new)

    def _read(self, name: str) -> _Sorted:
        """The keys of one shard, in its own order."""
        number = len(self.shards)
        self.shards.append(name)
        shard = _rows_of(self.folder / name, self.record)
        return _Sorted(np.array(shard["key"]), (number << 32) | np.arange(len(shard), dtype=np.int64))

    def _merge(self, new: _Sorted) -> None:
        """Put `new` into the index file; where the folder cannot be written, it stays in memory."""
        self._new = new
        if not self._writable:
            return
        try:
            with atomic_write(self.folder / INDEX) as temporary:
                _write(temporary, self.shards, self._kept, new)
        except IsoglossError as error:
            self._writable = False
            logger.warning("the index of cached vectors is not kept: %s", error.message)
            return
        self.shards, self._kept = self._open()
        self._merged, self._new = len(self.shards), _Sorted.empty()

    def _open(self) -> tuple[list[str], _Sorted]:
        """The shards that the index file knows and their keys; nothing where it is not there, or damaged.

        What is mapped is the file whose header was read: another process may put a new one in its place at any moment.
        """
        try:
            with (self.folder / INDEX).open("rb") as handle:
                rows, length = (int.from_bytes(handle.read(8), "little") for _ in range(2))
                start = 16 + length
                if not rows or os.fstat(handle.fileno()).st_size != start + rows * (KEY_BYTES + 8):
                    return [], _Sorted.empty()
                names = json.loads(handle.read(length))
                if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                    return [], _Sorted.empty()
                keys = np.memmap(handle, KEY, "r", start, (rows,))
                return names, _Sorted(keys, np.memmap(handle, "<i8", "r", start + rows * KEY_BYTES, (rows,)))
        except (OSError, ValueError, RecursionError):
            return [], _Sorted.empty()


def _joined(parts: Sequence[_Sorted]) -> _Sorted:
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    return _Sorted(keys[order], np.concatenate([part.places for part in parts])[order])


def _write(path: Path, shards: Sequence[str], kept: _Sorted, new: _Sorted) -> None:
    """Merge two sorted runs into a file, a stretch at a time: its header, then all keys, then all places."""
    names = json.dumps(list(shards)).encode()
    names += b" " * (-len(names) % 8)
    rows = len(kept.keys) + len(new.keys)
    header = rows.to_bytes(8, "little") + len(names).to_bytes(8, "little") + names
    with path.open("wb") as keys, path.open("r+b") as places:
        keys.write(header)
        places.seek(len(header) + rows * KEY_BYTES)
        done = 0
        for start in range(0, max(len(kept.keys), 1), MERGED_AT_ONCE):
            stop = min(start + MERGED_AT_ONCE, len(kept.keys))
            last = stop == len(kept.keys)
            until = len(new.keys) if last else int(np.searchsorted(new.keys, kept.keys[stop - 1], side="right"))
            old = _Sorted(np.asarray(kept.keys[start:stop]), np.asarray(kept.places[start:stop]))
            both = _joined([old, _Sorted(new.keys[done:until], new.places[done:until])])
            done = until
            keys.write(both.keys.tobytes())
            places.write(both.places.astype("<i8").tobytes())


def _remove_strays(folder: Path) -> None:
    """Remove what a process that was killed long ago left half written; others may be at work here."""
    for stray in folder.glob(f".*{TEMPORARY_MARK}*"):
        with suppress(OSError):
            if time.time() - stray.stat().st_mtime > STRAY_SECONDS:
                stray.unlink()

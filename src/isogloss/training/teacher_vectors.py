"""The teacher's vectors of all source sentences, by the rows of `data`: one fp16 matrix, mapped from disk.

    FOLDER/teacher-NAME.npy           sources × dimension
    FOLDER/teacher-NAME.unfinished/   the same on its way, and the checksum of each row that is there

The teacher reads a sentence once: what the vector cache has is copied, the rest is computed in windows of sentences sorted
by length, so that batches are dense. Text is mapped from disk and only that of missing rows is read; memory depends on the
window, not on the number of sentences. A killed process is continued, with a cache and without one.
"""

import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.checksums import load_array, row_checksums, seal
from isogloss.errors import IsoglossError
from isogloss.memory import release_memory
from isogloss.models.encoder import Encoder, SentenceEncoder, refuse_broken
from isogloss.models.token_store import raw_array
from isogloss.models.tokenizer_checks import refuse_unknown
from isogloss.models.vector_cache import Float16Rows, VectorCache, longest_first
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash, explaining_disk, folder_lock, make_folder
from isogloss.training.pair_dataset import PairDataset
from isogloss.training.work_files import use
from isogloss.types import BoolArray, FloatArray, IntArray

WINDOW = 65_536  # sentences that are sorted by length together
TEACHER_AT_ONCE = 1024
LOOKED_UP_AT_ONCE = 16_384
SAVE_SECONDS = 10.0  # how much work a kill -9 may cost
VECTORS, SUMS = "vectors.npy", "checksums"
SUM_BYTES = 8


def teacher_rows(
    encoder: Encoder,
    data: PairDataset,
    cache: VectorCache | None = None,
    folder: Path | None = None,
    on_progress: OnProgress = silent,
) -> Float16Rows:
    """The teacher's vector of every source sentence, by row: mapped from `folder`, or in memory without one.

    What is computed is kept in `cache` for other runs. A vector that is not finite is refused with its sentence.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
            return np.array(teacher_rows(encoder, data, cache, Path(temporary), on_progress))
    shape = (data.sources, encoder.dimension)
    path = folder / f"teacher-{content_hash(encoder.fingerprint, data.source_addresses.view(np.uint8).data)[:16]}.npy"
    use(path)
    unfinished = path.with_suffix(".unfinished")
    kept = load_array(path)
    if kept is not None and kept.shape == shape:
        on_progress(Step("teacher", data.sources, data.sources, "sentences", "reused"))
        return kept
    with folder_lock(unfinished, "another isogloss is writing these vectors", "wait for it, or name another folder"):
        with _RowFile(unfinished, shape) as rows:
            if cache is not None:
                _look_up(cache, data, rows)
            _compute(encoder, data, cache, rows, on_progress)
        seal(unfinished / VECTORS)
        os.replace(unfinished / VECTORS, path)
    shutil.rmtree(unfinished, ignore_errors=True)
    release_memory()
    made: Float16Rows = np.load(path, mmap_mode="r")
    return made


def _look_up(cache: VectorCache, data: PairDataset, rows: "_RowFile") -> None:
    """Copy what the cache has."""
    for start in range(0, data.sources, LOOKED_UP_AT_ONCE):
        missing = start + np.flatnonzero(~rows.done[start : start + LOOKED_UP_AT_ONCE])
        if len(missing):
            known, vectors = cache.find(data.source_addresses[missing])
            rows.put(missing[known], vectors)
    rows.save()


def _compute(
    encoder: Encoder,
    data: PairDataset,
    cache: VectorCache | None,
    rows: "_RowFile",
    on_progress: OnProgress,
) -> None:
    """Read the text of what is missing, window by window, and have the teacher embed it, if it can read it."""
    reused = int(rows.done.sum())
    done, total = 0, data.sources - reused
    if not total:
        on_progress(Step("teacher", reused, reused, "sentences", "reused from the cache"))
        return
    note = f"{reused:,} reused" if reused else ""
    on_progress(Step("teacher", 0, total, "sentences", note))

    def encode(texts: Sequence[str]) -> FloatArray:
        vectors = encoder.encode(texts)
        refuse_broken(vectors, texts, encoder.name)
        return vectors

    with cache.keeping() if cache is not None else nullcontext() as keep:
        for window in _windows(rows.done):
            texts, addresses = data.source_texts.take(pa.array(window)).to_pylist(), data.source_addresses[window]
            if not done and isinstance(encoder, SentenceEncoder):
                refuse_unknown(encoder.unknown_share(texts), encoder.name)
            for places, vectors in longest_first(texts, encode, max(TEACHER_AT_ONCE, getattr(encoder, "chunk_size", 0))):
                if keep is not None:
                    keep(addresses[places], vectors)
                rows.put(window[places], vectors)
                done += len(places)
                on_progress(Step("teacher", done, total, "sentences", note))
            del window, texts, addresses  # before the next window is read
    rows.save()


def _windows(done: BoolArray) -> Iterator[IntArray]:
    """Rows that are not done, of a window at a time."""
    for start in range(0, len(done), WINDOW):
        missing = start + np.flatnonzero(~done[start : start + WINDOW])
        if len(missing):
            yield missing


class _RowFile:
    """Vectors on their way to disk, in any order, and which of them are safely there.

    Rows are written plainly and not through a mapping: a disk that is full must be an error, not the end of the process.
    """

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f2", "fortran_order": False, "shape": shape})
        sizes = {VECTORS: len(header.getvalue()) + 2 * shape[0] * shape[1], SUMS: SUM_BYTES * shape[0]}
        known = all((folder / name).is_file() and (folder / name).stat().st_size >= size for name, size in sizes.items())
        self.folder, self._start, self._width = folder, len(header.getvalue()), 2 * shape[1]
        make_folder(folder)
        if not known:
            _refuse_if_too_large(folder, sizes[VECTORS])
        with explaining_disk(folder):
            self._files = {name: (folder / name).open("r+b" if known else "w+b") for name in sizes}
            self._files[VECTORS].write(header.getvalue())  # again, too, where it is known: it may be what was damaged
            self._files[VECTORS].flush()
            for name, size in sizes.items():  # one that was sealed, and not put into place any more, loses its seal
                self._files[name].truncate(size)
        self.done = self._intact_rows(shape) if known else np.zeros(shape[0], dtype=np.bool_)
        self._pending: list[tuple[IntArray, Float16Rows]] = []
        self._saved = time.monotonic()

    def __enter__(self) -> Self:
        """Itself; the files are closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Keep what an interruption finds done, and close the files."""
        try:
            if not isinstance(error, IsoglossError):  # such as a full disk: trying again would hide what it says
                self.save()
        finally:
            for handle in self._files.values():
                handle.close()

    def _intact_rows(self, shape: tuple[int, int]) -> BoolArray:
        """Which rows of an earlier session are there and fit their checksums; one that was damaged is computed again."""
        kept: Float16Rows = np.memmap(self._files[VECTORS], "<f2", "r", self._start, shape)
        sums = raw_array(self.folder / SUMS, "<u8")
        done = np.zeros(shape[0], dtype=np.bool_)
        for start in range(0, shape[0], LOOKED_UP_AT_ONCE):
            some = slice(start, start + LOOKED_UP_AT_ONCE)
            done[some] = row_checksums(kept[some]) == sums[some]
        return done

    def put(self, rows: IntArray, vectors: Float16Rows) -> None:
        """Take the vectors of some rows; they go to disk every few seconds, or when they are many."""
        self._pending.append((rows, vectors))
        many = sum(len(rows) for rows, _ in self._pending) >= WINDOW
        if many or time.monotonic() - self._saved >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Put what is there on disk, and only then say so."""
        if self._pending:
            rows = np.concatenate([rows for rows, _ in self._pending])
            order = np.argsort(rows)
            place, rows = np.argsort(order), rows[order]
            vectors = np.empty((len(rows), self._width // 2), dtype="<f2")
            for some, computed in self._pending:  # straight to where they stand by rows: they are never there three times
                vectors[place[: len(some)]], place = computed, place[len(some) :]
            with explaining_disk(self.folder):
                _write_runs(self._files[VECTORS], self._start, rows, vectors.view(np.uint8))
                sums = row_checksums(vectors).astype("<u8").view(np.uint8).reshape(-1, SUM_BYTES)
                _write_runs(self._files[SUMS], 0, rows, sums)
            self.done[rows] = True
        self._pending, self._saved = [], time.monotonic()


def _write_runs(handle: BinaryIO, start: int, rows: IntArray, values: NDArray[np.uint8]) -> None:
    """Write rows of bytes to their places, neighbours together, and wait until the disk has them."""
    begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    for begin, end in pairwise([*begins, len(rows)]):
        handle.seek(start + int(rows[begin]) * values.shape[1])
        handle.write(values[begin:end].data)
    handle.flush()
    os.fsync(handle.fileno())


def _refuse_if_too_large(folder: Path, bytes_needed: int) -> None:
    """Say before the teacher's hours, not after them, that its vectors do not fit."""
    free = shutil.disk_usage(folder).free
    if bytes_needed > 0.9 * free:
        raise IsoglossError(
            f"{folder}: the teacher's vectors need {bytes_needed / 2**30:.1f} GiB, the disk has {free / 2**30:.1f} GiB free",
            hint="free some space, use fewer pairs, or name another output.folder",
        )

"""Embeddings of one side as rows of a memory-mapped float16 file: any number of sentences in little memory.

    FOLDER/NAME-KEY.npy     KEY names the model and the sentences, so a finished file is reused

They are computed through the shared cache: what any earlier work computed is copied, and interrupted work is not lost.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from isogloss.checksums import load_array, sealing
from isogloss.corpora.text.hashing import Hashes
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.vector_cache import Float16Rows
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import cache_folder, content_hash, make_folder

BLOCK = 16_384  # sentences that are looked up and sorted by length together


def embedded(
    name: str,
    texts: pa.Array | pa.ChunkedArray,
    hashes: Hashes,
    encoder: Encoder,
    folder: Path,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
) -> Float16Rows:
    """The embeddings of sentences with these hashes, mapped from a file in `folder`."""
    path = folder / f"{name}-{content_hash(content_hash(hashes.data), encoder.fingerprint)[:16]}.npy"
    rows = len(texts)
    stage, shape = f"embedding {name}", (rows, encoder.dimension)
    found = load_array(path)
    if found is not None and found.shape == shape:
        on_progress(Step(stage, rows, rows, "sentences", "reused"))
        return found
    make_folder(folder)
    cached = CachedEncoder(encoder, cache or cache_folder())
    with sealing(path) as temporary:
        file = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
        _allocate(temporary)
        for start in range(0, rows, BLOCK):
            block = texts.slice(start, BLOCK).to_pylist()
            end = start + len(block)

            def report(step: Step, end: int = end) -> None:
                note = f"{cached.reused:,} reused from the cache" if cached.reused else ""
                on_progress(Step(stage, end - (step.total - step.done), rows, "sentences", note))

            file[start:end] = cached.encode(block, report)
        file.flush()
        del file
    made: Float16Rows = np.load(path, mmap_mode="r")
    return made


def _allocate(path: Path) -> None:
    """Allocate the whole file now: if the disk were full later, writing to the mapping would kill the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as handle:
            try:
                os.posix_fallocate(handle.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # unsupported by this file system
                    raise


def remove_work(folder: Path) -> None:
    """Remove the embeddings and search states in a folder once they are no longer needed."""
    if folder.is_dir():
        for path in (*folder.glob("*.npy"), *folder.glob("neighbors-*.npz"), *folder.glob("index-*")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # the folder has other files
            folder.rmdir()

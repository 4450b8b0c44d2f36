"""Sentences as rows of a mapped file, in half precision: any number of them in little memory.

    FOLDER/NAME-KEY.npy     KEY names the model and the sentences, so that a finished file is found again

Vectors go through the cache of `encode`: what any earlier work computed is copied, and what is interrupted is not lost.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from isogloss.checksums import load_array, sealing
from isogloss.models.encoder import Encoder
from isogloss.models.vector_cache import Float16Rows, VectorCache, default_folder, longest_first, text_keys
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash, make_folder

AT_ONCE = 16_384  # sentences that are looked up and sorted by length together
COMPUTED_AT_ONCE = 512


def embedded(
    name: str,
    sentences: Iterable[list[str]],
    key: str,
    rows: int,
    encoder: Encoder,
    folder: Path,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
) -> Float16Rows:
    """The vectors of sentences, which come in blocks, mapped from a file in `folder`; `key` names what they are."""
    path = folder / f"{name}-{content_hash(key, encoder.fingerprint)[:16]}.npy"
    stage, shape = f"embedding {name}", (rows, encoder.dimension)
    found = load_array(path)
    if found is not None and found.shape == shape:
        on_progress(Step(stage, rows, rows, "sentences", "found again"))
        return found
    make_folder(folder)
    with sealing(path) as temporary:
        file = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
        _take_space(temporary)
        _fill(
            file,
            sentences,
            encoder,
            VectorCache(Path(cache or default_folder()), encoder.fingerprint, shape[1]),
            on_progress,
            stage,
        )
        file.flush()
        del file
    made: Float16Rows = np.load(path, mmap_mode="r")
    return made


def _take_space(path: Path) -> None:
    """Have the disk give all of a file's space now: later, writing to its mapping would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as handle:
            try:
                os.posix_fallocate(handle.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not every file system can
                    raise


def _fill(
    file: Float16Rows, sentences: Iterable[list[str]], encoder: Encoder, cache: VectorCache, on_progress: OnProgress, stage: str
) -> None:
    """Copy what the cache has, and compute the rest, block by block."""
    first, reused, computed = 0, 0, 0
    keep = None
    with ExitStack() as stack:
        for block in sentences:
            keys = text_keys(block)
            known, found = cache.find(keys)
            file[first + np.flatnonzero(known)] = found
            reused += len(found)
            missing = np.flatnonzero(~known)
            if keep is None and len(missing):  # a cache that has everything need not be writable
                keep = stack.enter_context(cache.keeping())
            for places, vectors in longest_first([block[row] for row in missing], encoder.encode, COMPUTED_AT_ONCE):
                assert keep is not None
                keep(keys[missing[places]], vectors)
                file[first + missing[places]] = vectors
                computed += len(places)
                on_progress(Step(stage, reused + computed, len(file), "sentences", _reused(reused)))
            first += len(block)
            on_progress(Step(stage, first, len(file), "sentences", _reused(reused)))


def _reused(count: int) -> str:
    return f"{count:,} reused from the cache" if count else ""


def forget_work(folder: Path) -> None:
    """Remove the vectors and states of searches that a folder holds, once they are of no more use."""
    if folder.is_dir():
        for path in (*folder.glob("*.npy"), *folder.glob("neighbours-*.npz"), *folder.glob("index-*")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else keeps things here
            folder.rmdir()

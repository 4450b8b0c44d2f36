"""Embeddings of many sentences as one .npy file. Interrupted work continues where it stopped.

    OUT                sentences × dimension, float32; it appears when all is done
    OUT.unfinished/    what was computed so far: a cache of its own, in full precision

Chunks depend on the sentences alone, so an interrupted file ends up the same as one that was not.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from isogloss.models.cached_encoder import CHUNK, CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.vector_cache import VectorCache
from isogloss.progress import OnProgress, silent
from isogloss.storage import atomic_write, folder_lock
from isogloss.types import FloatArray

UNFINISHED = ".unfinished"
STAGE = "embed"


def embed_file(
    encoder: Encoder,
    texts: Sequence[str],
    out: Path,
    finish: Callable[[FloatArray], FloatArray] | None = None,
    on_progress: OnProgress = silent,
) -> tuple[int, int]:
    """Write the embeddings of `texts` to `out`, one row each; return the shape. `finish` may change them at the end."""

    def write(vectors: FloatArray) -> tuple[int, int]:
        vectors = vectors if finish is None else finish(vectors)
        with atomic_write(out) as temporary, temporary.open("wb") as handle:
            np.save(handle, vectors)
        return len(vectors), int(vectors.shape[1])

    if len(set(texts)) <= CHUNK:
        return write(encoder.encode(texts, on_progress, STAGE))
    folder = out.with_name(out.name + UNFINISHED)
    with folder_lock(folder, "another isogloss is writing these embeddings", "wait for it, or name another --out"):
        cache = VectorCache(folder, encoder.fingerprint, encoder.dimension, "<f4")
        shape = write(CachedEncoder(encoder, cache).encode(texts, on_progress, STAGE))
    shutil.rmtree(folder, ignore_errors=True)
    return shape
